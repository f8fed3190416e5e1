"""What the boards say of the claims: every claims file judged on every board, once for pages and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..suite.claims import judge
from ..suite.claims.verdicts import Verdict
from ..suite.spec.load import list_specs
from ..suite.spec.results import SuiteRecord
from ..suite.spec.schema import ClaimsSpec
from .boards import Board, Entry

__all__ = ["VERDICTS", "Judged", "judge_boards"]

VERDICTS = {"reproduced": "✓", "not_reproduced": "✗", "inconclusive": "≈", "not_measured": "–"}
"""The four verdicts, in the order in which they are counted, each with its mark."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A claims file on a board.

    Attributes
    ----------
    board : Board
    claims : ClaimsSpec
    verdicts : list of Verdict
        In the order of the file.
    """

    board: Board
    claims: ClaimsSpec
    verdicts: list[Verdict]

    @property
    def slug(self) -> str:
        """Its part in addresses within the page."""
        return f"{self.claims.name}-{self.board.slug}"

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How many claims have each verdict, those of none left out."""
        found = Counter(verdict.verdict for verdict in self.verdicts)
        return [(name, found[name]) for name in VERDICTS if found[name]]

    @property
    def is_measured(self) -> bool:
        """Whether any claim has a number."""
        return any(verdict.verdict != "not_measured" for verdict in self.verdicts)


def judge_boards(boards: Sequence[Board]) -> list[Judged]:
    """Judge every built-in claims file on every board, in the order of the files."""
    files = [found.spec for found in list_specs("claims")]
    return [
        Judged(board, spec, judge(spec, [r for entry in entries for r in entry.results.values()], record))
        for spec in files
        if isinstance(spec, ClaimsSpec)
        for board in boards
        for entries in [_one_a_name(board)]
        for record in [_record(board, entries)]
    ]


def _one_a_name(board: Board) -> list[Entry]:
    """A claim names a model: of several of that name, the first of the board, so a ranked one before others."""
    found: dict[str, Entry] = {}
    for entry in board.entries:
        found.setdefault(entry.name, entry)
    return list(found.values())


def _record(board: Board, entries: Sequence[Entry]) -> SuiteRecord:
    """The board as one run would have recorded it."""
    results = [result for entry in entries for _, result in sorted(entry.results.items(), key=lambda pair: pair[0])]
    cells = {result.cell.identity: result.cell for result in results}
    return SuiteRecord(
        identity=board.identity,
        suite=board.suite.model_dump(),
        tasks={name: spec.model_dump() for name, spec in board.tasks.items()},
        models={entry.name: entry.model.model_dump() for entry in entries},
        protocols={name: spec.model_dump() for name, spec in board.protocols.items()},
        cells=list(cells.values()),
        measurements=[
            {"identity": result.identity, "cell": result.cell.identity, "protocol": result.protocol}
            for result in results
        ],
    )
