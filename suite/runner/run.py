"""Running a plan: what is missing is worked on, longest first, and everything that is finished is kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from .errors import RunStopped
from .events import CellEnded, Event, Listen
from .executors import Executor, InProcess, LocalProcesses
from .pending import Estimator, Pending
from .plan import Plan, suite_record
from .settings import Settings
from .store import CellFailures, Store, StoreError

__all__ = ["Summary", "default_workers", "run"]


@dataclass(frozen=True)
class Summary:
    """What a run came to.

    Attributes
    ----------
    worked_on : int
        Cells that had something missing.
    failed : tuple of CellFailures
        Those of them that are still not complete, and why.
    """

    worked_on: int
    failed: tuple[CellFailures, ...]


def run(
    plan: Plan, pending: Sequence[Pending], store: Store, settings: Settings, *, workers: int, listen: Listen
) -> Summary:
    """Complete the cells of a plan in a run folder.

    Parameters
    ----------
    plan : Plan
        What is asked for.
    pending : sequence of Pending
        What of it is missing, from `find_pending`.
    store : Store
        The run folder; `prepare` must have been called.
    settings : Settings
        Device and so on.
    workers : int
        Processes to use; 1 is this one.
    listen : callable
        Gets the events.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C or SIGTERM, after what is being trained has been saved.
    RunStopped
        If nothing can go on: the disk is full, say.
    """
    store.write_suite(suite_record(plan))
    if not pending:
        return Summary(0, ())
    failed: list[CellFailures] = []

    def hear(event: Event) -> None:
        if isinstance(event, CellEnded) and event.failures:
            failed.append(CellFailures(cell=event.cell, failures=list(event.failures)))
        listen(event)

    cells = [one.work for one in Estimator.of(store).longest_first(pending)]
    try:
        executor(settings, min(workers, len(cells))).run(cells, hear)
    except StoreError as error:
        raise RunStopped(str(error)) from error
    return Summary(len(cells), tuple(failed))


def executor(settings: Settings, workers: int) -> Executor:
    """In this process for one worker, else in local processes."""
    return InProcess(settings) if workers <= 1 else LocalProcesses(settings, workers)


def default_workers(cells: int) -> int:
    """As many as there are cores for this process, and no more than cells."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, cells))
