"""One suite of a run folder with its results: what claims and comparisons read. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...tasks.errors import LayerstateError
from ..spec.results import Result, SuiteRecord
from .store import read_results, read_suites, results_of

__all__ = ["Gathered", "gather"]


@dataclass(frozen=True)
class Gathered:
    """A suite that was run into a folder, and the results that it asks for."""

    record: SuiteRecord
    results: list[Result]


def gather(out: Path, tell: Callable[[str], None] = lambda _text: None) -> list[Gathered]:
    """Every suite of a run folder, by name.

    Raises
    ------
    LayerstateError
        If no suite was run into it.
    """
    records = read_suites(out, tell)
    if not records:
        raise LayerstateError(f"{out} holds no suite; layerstate run SUITE --out {out} makes one.")
    results = {result.identity: result for result in read_results(out, tell)}
    return [Gathered(record, list(results_of(out, record, results, tell).values())) for record in records]
