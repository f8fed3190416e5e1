"""What is handed to a worker: a cell with what is still to be measured in it."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import Cell
from .store import Failure

__all__ = ["Work"]


@dataclass(frozen=True)
class Work:
    """A cell, from the beginning or from where a worker had to leave it.

    Attributes
    ----------
    cell : Cell
        With the measurements that are to be made; those that failed in this run are no longer among them.
    failures : tuple of Failure
        What has gone wrong in the cell so far in this run.
    """

    cell: Cell
    failures: tuple[Failure, ...] = ()
