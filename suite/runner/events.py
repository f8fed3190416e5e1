"""What a run tells those who watch it. Plain data: it crosses process borders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..spec.results import CellKey
from .store import Failure

__all__ = ["CellEnded", "CellStarted", "CellWaits", "Doing", "Event", "Listen", "Stepped", "Told", "name_of"]


def name_of(cell: CellKey) -> str:
    """A cell in words."""
    without = "" if cell.without is None else f" without {cell.without}"
    return f"{cell.model}{without} · {cell.task} · seed {cell.seed}"


@dataclass(frozen=True)
class CellStarted:
    """A worker took a cell: one of the run's, or one that it trains because the measurement in hand needs it."""

    worker: int
    cell: CellKey


@dataclass(frozen=True)
class Doing:
    """What the worker does with it now, in two or three words."""

    worker: int
    what: str


@dataclass(frozen=True)
class Stepped:
    """A training step was taken."""

    worker: int
    step: int
    steps: int
    loss: float
    accuracy: float | None


@dataclass(frozen=True)
class CellEnded:
    """A worker is done with a cell; without failures it is complete."""

    worker: int
    cell: CellKey
    failures: tuple[Failure, ...]


@dataclass(frozen=True)
class CellWaits:
    """This cell is asked for again later: others work on it, or on the cell that it needs."""

    worker: int
    cell: CellKey
    needs: CellKey | None = None


@dataclass(frozen=True)
class Told:
    """A sentence for the person: a damaged file was set aside, say."""

    text: str


Event = CellStarted | Doing | Stepped | CellEnded | CellWaits | Told
Listen = Callable[[Event], None]
