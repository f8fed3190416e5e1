"""What of a plan is still to do, and about how long it will take. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..spec.results import CellRecord, Result
from .plan import Cell, Measurement, Plan
from .store import Store, read_cells, read_results

__all__ = ["Estimator", "Pending", "find_pending"]


@dataclass(frozen=True)
class Pending:
    """A cell that is not complete.

    Attributes
    ----------
    cell : Cell
        The cell.
    trained : bool
        Whether its weights are there.
    missing : tuple of Measurement
        What has to be measured.
    """

    cell: Cell
    trained: bool
    missing: tuple[Measurement, ...]


def find_pending(plan: Plan, store: Store) -> list[Pending]:
    """The cells of which a measurement is missing, in the plan's order; damaged results are set aside and missing."""
    pending: list[Pending] = []
    for cell in plan.cells:
        missing = tuple(each for each in cell.measurements if store.read_result(each.identity) is None)
        if missing:
            pending.append(Pending(cell, store.read_cell(cell.identity) is not None, missing))
    return pending


class Estimator:
    """Seconds that work will take, from what similar work took in this run folder.

    A training is similar to one of the same model on the same task, else to one of the same model: then its seconds
    are scaled by the training tokens. A measurement is similar to one with the same protocol on the same model, else
    on any.
    """

    def __init__(self, cells: Iterable[CellRecord], results: Iterable[Result]) -> None:
        self._training: dict[tuple[str, ...], list[float]] = {}
        self._rates: dict[str, list[float]] = {}
        self._measuring: dict[tuple[str, ...], list[float]] = {}
        for record in cells:
            key = record.cell
            self._training.setdefault((key.model, key.task), []).append(record.seconds)
            tokens = _tokens(record.specs["training"], record.specs["task"])
            self._rates.setdefault(key.model, []).append(record.seconds / tokens)
        for result in results:
            for similar in ((result.protocol, result.cell.model), (result.protocol,)):
                self._measuring.setdefault(similar, []).append(result.seconds)

    @classmethod
    def of(cls, store: Store) -> Estimator:
        """From everything that is finished in a run folder."""
        return cls(read_cells(store.out), read_results(store.out))

    def seconds(self, pending: Pending) -> float | None:
        """About how long one worker needs for it; None if nothing similar is finished."""
        parts = [self._measurement(pending.cell, each) for each in pending.missing]
        if not pending.trained:
            parts.append(self._train(pending.cell))
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    def remaining(self, pending: Sequence[Pending], workers: int) -> float | None:
        """About how long all of it takes; None if some of it is unlike anything finished."""
        each = [self.seconds(one) for one in pending]
        known = [one for one in each if one is not None]
        if len(known) < len(each):
            return None
        return max([sum(known) / max(1, workers), *known], default=0.0)

    def longest_first(self, pending: Sequence[Pending]) -> list[Pending]:
        """The order in which workers take cells, so that no long one starts last: unknown ones first, by size."""

        def weight(one: Pending) -> tuple[bool, float]:
            seconds = self.seconds(one)
            size = float(one.cell.training_tokens) * (not one.trained)
            return (seconds is None, size if seconds is None else seconds)

        return sorted(pending, key=weight, reverse=True)

    def _train(self, cell: Cell) -> float | None:
        same = self._training.get((cell.model.name, cell.task.name))
        if same:
            return _mean(same)
        rates = self._rates.get(cell.model.name)
        return _mean(rates) * cell.training_tokens if rates else None

    def _measurement(self, cell: Cell, measurement: Measurement) -> float | None:
        name = measurement.protocol.name
        found = self._measuring.get((name, cell.model.name)) or self._measuring.get((name,))
        return _mean(found) if found else None


def _tokens(training: Mapping[str, Any], task: Mapping[str, Any]) -> float:
    return max(1.0, float(training["steps"]) * training["batch_size"] * task["lengths"]["train"])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
