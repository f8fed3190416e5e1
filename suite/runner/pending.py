"""What of a plan is still to do, and about how long it will take. Needs no torch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..spec.results import CellRecord, Result
from .plan import Cell, Measurement, Plan
from .store import Store, read_cells, read_results

__all__ = ["Estimator", "Pending", "Waiting", "find_pending", "find_waiting", "waiting_lines"]


@dataclass(frozen=True)
class Pending:
    """A cell of which something can be measured now.

    Attributes
    ----------
    cell : Cell
        The cell.
    trained : bool
        Whether its weights are there.
    missing : tuple of Measurement
        What has to be measured.
    twins : tuple of Cell
        The same model without some of its components, where that has to be trained for a measurement.
    """

    cell: Cell
    trained: bool
    missing: tuple[Measurement, ...]
    twins: tuple[Cell, ...] = ()

    @property
    def work(self) -> Cell:
        """The cell with nothing but what is to be measured now."""
        return replace(self.cell, measurements=self.missing)


@dataclass(frozen=True)
class Waiting:
    """A measurement that needs cells on other tasks which are neither trained nor part of the plan.

    Attributes
    ----------
    cell : Cell
        The measured cell.
    measurement : Measurement
        What is missing.
    needs : tuple of Cell
        The cells that have to be there first.
    """

    cell: Cell
    measurement: Measurement
    needs: tuple[Cell, ...]


def find_pending(plan: Plan, store: Store) -> list[Pending]:
    """The cells of which a measurement is missing, in the plan's order; damaged results are set aside and missing.

    What waits for cells that the plan does not have is left out (see `find_waiting`).
    """
    planned = {cell.identity for cell in plan.cells}
    pending: list[Pending] = []
    for cell in plan.cells:
        missing = tuple(each for each in _missing(cell, store) if not _needs(each, planned, store))
        if missing:
            twins = {other.identity: other for each in missing for other in each.related if other.without is not None}
            untrained = tuple(twin for twin in twins.values() if store.read_cell(twin.identity) is None)
            pending.append(Pending(cell, store.read_cell(cell.identity) is not None, missing, untrained))
    return pending


def find_waiting(plan: Plan, store: Store) -> list[Waiting]:
    """The measurements that this plan cannot make: it leaves out cells that they need and that are not there."""
    planned = {cell.identity for cell in plan.cells}
    return [
        Waiting(cell, each, needs)
        for cell in plan.cells
        for each in _missing(cell, store)
        if (needs := _needs(each, planned, store))
    ]


def waiting_lines(waiting: Iterable[Waiting]) -> list[str]:
    """What waits for what, and what would be right: a line for each model, protocol and set of needed tasks."""
    seeds: dict[tuple[str, str, str, str], list[int]] = {}
    for one in waiting:
        needs = _all_of([cell.task.name for cell in one.needs])
        key = (one.measurement.protocol.name, one.cell.model.name, one.cell.task.name, needs)
        seeds.setdefault(key, []).append(one.cell.seed)
    lines: list[str] = []
    for (protocol, model, task, needs), found in seeds.items():
        of = f"seed{'s' * (len(found) > 1)} {_all_of([str(seed) for seed in found])}"
        lines.append(
            f"{protocol} of {model} on {task}, {of}, waits for {model} on {needs}: "
            "run without --task, or run those first"
        )
    return lines


def _all_of(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _missing(cell: Cell, store: Store) -> list[Measurement]:
    return [each for each in cell.measurements if store.read_result(each.identity) is None]


def _needs(measurement: Measurement, planned: Collection[str], store: Store) -> tuple[Cell, ...]:
    """The related cells that neither this plan nor an earlier run trains; one without a component is made on demand."""
    return tuple(
        other
        for other in measurement.related
        if other.without is None and other.identity not in planned and store.read_cell(other.identity) is None
    )


class Estimator:
    """Seconds that work will take, from what similar work took in this run folder.

    A training is similar to one of the same model on the same task (without the same component, else whole), else to
    one of the same model: then its seconds are scaled by the training tokens. A measurement is similar to one with the
    same protocol on the same model, else on any.
    """

    def __init__(self, cells: Iterable[CellRecord], results: Iterable[Result]) -> None:
        self._training: dict[tuple[str, str, str | None], list[float]] = {}
        self._rates: dict[str, list[float]] = {}
        self._measuring: dict[tuple[str, ...], list[float]] = {}
        for record in cells:
            key = record.cell
            self._training.setdefault((key.model, key.task, key.without), []).append(record.seconds)
            if key.without is None:
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
        parts += [self._train(cell) for cell in (() if pending.trained else (pending.cell,)) + pending.twins]
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
            size = float(one.cell.training_tokens) * ((not one.trained) + len(one.twins))
            return (seconds is None, size if seconds is None else seconds)

        return sorted(pending, key=weight, reverse=True)

    def _train(self, cell: Cell) -> float | None:
        key = cell.key
        same = self._training.get((key.model, key.task, key.without)) or self._training.get((key.model, key.task, None))
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
