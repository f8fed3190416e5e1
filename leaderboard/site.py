"""What all pages share: boards with their ranks and estimates, inks, addresses, and the renderer of charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

from .boards import Board, Entry, make_boards
from .colours import LIGHT, Ink, assign_inks
from .estimates import Estimates
from .judging import Judged, judge_boards
from .ranking import Ranking, rank
from .read import Records, Refused, SiteError
from .render import Renderer

__all__ = ["Site", "make_site"]


@dataclass(slots=True)
class Site:
    """Everything that the pages show.

    Attributes
    ----------
    boards : list of Board
        Ranked.
    estimates : dict
        By entry identity.
    rankings : dict
        By board identity.
    inks : dict
        By model name.
    draw : Renderer
    judged : list of Judged
        Every claims file on every board.
    refused : list of Refused
        Files that are not used, by name.
    """

    boards: list[Board]
    estimates: dict[str, Estimates]
    rankings: dict[str, Ranking]
    inks: dict[str, Ink]
    draw: Renderer
    judged: list[Judged]
    refused: list[Refused]
    model_pages: dict[str, str]
    task_pages: dict[tuple[str, str], str]

    def model_page(self, entry: Entry) -> str:
        """The address of a model's page, from the site's root."""
        return self.model_pages[entry.identity]

    def task_page(self, board: Board, task: str) -> str:
        """The address of a task's page, from the site's root."""
        return self.task_pages[board.identity, task]

    def ink(self, entry: Entry) -> Ink:
        """How the model is drawn."""
        return self.inks[entry.name]


def make_site(records: Records) -> Site:
    """Sort, estimate and rank what was read."""
    boards = make_boards(records)
    if not boards:
        why = "; ".join(f"{refused.where}: {refused.why}" for refused in records.refused[:3])
        raise SiteError(f"No suite in the sources can be shown. {why}")
    estimates = {entry.identity: Estimates(entry) for board in boards for entry in board.entries}
    rankings = {board.identity: rank(board) for board in boards}
    inks = assign_inks((entry.name, entry.family) for board in boards for entry in board.entries)
    variables = {ink.light: ink.css for ink in inks.values()}
    variables |= {getattr(LIGHT, f.name): f"var(--{f.name}, {getattr(LIGHT, f.name)})" for f in fields(LIGHT)}
    return Site(
        boards=boards,
        estimates=estimates,
        rankings=rankings,
        inks=inks,
        draw=Renderer(variables),
        judged=judge_boards(boards),
        refused=sorted(records.refused, key=lambda refused: (refused.where, refused.why)),
        model_pages=_model_pages(boards),
        task_pages=_task_pages(boards),
    )


def _model_pages(boards: Sequence[Board]) -> dict[str, str]:
    """`models/<name>.html`; with the identity where a name stands for several models."""
    count = Counter(entry.name for board in boards for entry in board.entries)
    return {
        entry.identity: f"models/{entry.name}{f'~{entry.identity}' if count[entry.name] > 1 else ''}.html"
        for board in boards
        for entry in board.entries
    }


def _task_pages(boards: Sequence[Board]) -> dict[tuple[str, str], str]:
    """`tasks/<name>.html`; with the board's identity where several boards have a task of the name."""
    count = Counter(task for board in boards for task in board.tasks)
    return {
        (board.identity, task): f"tasks/{task}{f'~{board.identity}' if count[task] > 1 else ''}.html"
        for board in boards
        for task in board.tasks
    }
