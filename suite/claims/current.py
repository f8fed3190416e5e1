"""Which of a run folder's suites count: of several records of one suite, those that no newer one has replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..runner.gathered import Gathered
from ..spec.results import SuiteRecord

__all__ = ["current"]


def current(suites: Sequence[Gathered], folder: Path, tell: Callable[[str], None]) -> list[Gathered]:
    """The suites less stale records, each of which is told.

    A suite whose tasks, protocols or seeds change between runs leaves a record a version. One is stale if a record of
    the same name that was run later asks for other measurements of the same cells, or if another holds all its results.

    Parameters
    ----------
    suites : sequence of Gathered
        All that the folder holds.
    folder : Path
        The run folder: a record's file is as new as its last run.
    tell : callable
        Takes a line for each stale record.
    """
    kept: list[Gathered] = []
    newest_first = sorted(suites, key=lambda suite: _changed(folder, suite.record), reverse=True)
    for suite in newest_first:
        if not any(_replaces(other, suite) or _holds(other, suite) for other in kept if _same_name(other, suite)):
            kept.append(suite)
    # Going back to a narrower version makes it the newest, and what it has is all in the wider one.
    kept = [
        suite
        for suite in kept
        if not any(_holds(other, suite) for other in kept if other is not suite and _same_name(other, suite))
    ]
    for suite in suites:
        if suite not in kept:
            used = ", ".join(other.record.identity for other in kept if _same_name(other, suite))
            tell(
                f"{_file(folder, suite.record)} is left out: it is stale, an earlier version of the suite "
                f"{suite.record.suite['name']} (judged on {used})."
            )
    return [suite for suite in suites if suite in kept]


def _same_name(one: Gathered, other: Gathered) -> bool:
    return one.record.suite["name"] == other.record.suite["name"]


def _file(folder: Path, record: SuiteRecord) -> Path:
    return folder / "suites" / f"{record.suite['name']}-{record.identity}.json"


def _changed(folder: Path, record: SuiteRecord) -> int:
    """When its file was written last, in nanoseconds; 0 if it is gone."""
    try:
        return _file(folder, record).stat().st_mtime_ns
    except OSError:
        return 0


def _asked(record: SuiteRecord) -> dict[tuple[str, str, int, str], str]:
    """The identity of every measurement, by model, task, seed and protocol."""
    cells = {cell.identity: cell for cell in record.cells}
    found: dict[tuple[str, str, int, str], str] = {}
    for each in record.measurements:
        cell = cells.get(each["cell"])
        if cell is not None:
            found[cell.model, cell.task, cell.seed, each["protocol"]] = each["identity"]
    return found


def _replaces(newer: Gathered, older: Gathered) -> bool:
    """Whether both ask for the same measurements of the same cells by name, and mean other ones."""
    now, then = _asked(newer.record), _asked(older.record)
    return any(now[key] != then[key] for key in now.keys() & then.keys())


def _holds(wider: Gathered, suite: Gathered) -> bool:
    """Whether all results of the suite are among those of the other."""
    return {result.identity for result in suite.results} <= {result.identity for result in wider.results}
