"""From a trained cell to result files: each protocol's readings, the gate, and everything a result says beside them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from ...tasks.errors import LayerstateError
from ..measure.chance import majority_by_position
from ..protocols import Outcome, ProtocolCode, Reading, load_protocol
from ..spec.dump import resolved_values
from ..spec.load import Located
from ..spec.results import CellRecord, GateReading, Metric, PackedArray, Result, Status
from ..spec.schema import Gate, MetricSpec, ProtocolSpec
from .attempts import Attempts
from .errors import CellFailed
from .outcomes import checked
from .plan import Cell, Measurement
from .provenance import peak_memory_mb, provenance, reset_peak_memory
from .store import Store
from .view import View

if TYPE_CHECKING:
    from .related import Relations

__all__ = ["Measurer", "clean_accuracy", "gate_reading", "measured_gate", "to_metrics"]

OpenRelations = Callable[[Mapping[str, Cell | str]], "AbstractContextManager[Relations]"]


def clean_accuracy(view: View) -> float:
    """Token accuracy on the `evaluate` split at the training length."""
    length = view.spec.lengths.train
    target = view.data("evaluate", length).states[view.task.target]
    return float((view.logits("evaluate", length).argmax(-1) == target).mean())


@dataclass(frozen=True)
class _Measured:
    """What a protocol found, and what it took."""

    outcome: Outcome
    version: int
    mechanistic: bool
    digests: dict[str, str]
    seconds: float
    peak_memory_mb: float
    forward_seconds: float
    shared_seconds: float
    related: dict[str, str] = field(default_factory=dict[str, str])


class Measurer:
    """Measures one trained cell and writes its results.

    Parameters
    ----------
    cell : Cell
        What was planned.
    record : CellRecord
        What was trained.
    view : View
        The trained cell.
    store : Store
        Where results go.
    doing : callable
        Is told what is being measured.
    open_relations : callable
        Opens the other cells that a measurement needs, which must have been trained.
    """

    def __init__(
        self,
        cell: Cell,
        record: CellRecord,
        view: View,
        store: Store,
        doing: Callable[[str], None],
        open_relations: OpenRelations,
    ) -> None:
        self._cell = cell
        self._record = record
        self._view = view
        self._store = store
        self._doing = doing
        self._open_relations = open_relations
        self._measured: dict[str, _Measured] = {}
        self._failed: set[str] = set()
        self._chance: dict[str, float] = {}

    def measure(self, todo: Sequence[Measurement], attempts: Attempts) -> None:
        """Measure what is missing; a protocol that fails is recorded, and the others go on."""
        gate_first = sorted(todo, key=lambda each: each.protocol.name != self._cell.gate_protocol.name)
        for measurement in gate_first:
            with attempts.attempt("measuring", measurement.protocol.name):
                measured = self._run(measurement.protocol, measurement.relations)
                self._store.write_result(self._result(measurement, measured, self._gate()))

    def _gate(self) -> GateReading:
        """What the cell shows at the gate: from a result that is there, or by measuring the gate's protocol."""
        protocol = self._cell.gate_protocol
        if protocol.name not in self._measured:
            stored = self._store.read_result(self._cell.gate_result)
            if stored is not None:
                return stored.gate
        try:
            measured = self._run(protocol, {})
        except LayerstateError as error:
            raise CellFailed(
                f"Without {self._cell.gate.metric} there is no gate, and nothing can be said: {error}"
            ) from error
        return gate_reading(self._cell.gate, self._cell.gate_length, measured.outcome.readings)

    def _run(self, protocol: Located, relations: Mapping[str, Cell | str]) -> _Measured:
        """Measure with a protocol, once a cell; a failure is remembered too."""
        name = protocol.name
        if name in self._failed:
            raise CellFailed(f"The protocol {name} failed before.")
        if name not in self._measured:
            self._failed.add(name)
            self._measured[name] = self._run_now(protocol, relations)
            self._failed.remove(name)
        return self._measured[name]

    def _run_now(self, protocol: Located, relations: Mapping[str, Cell | str]) -> _Measured:
        spec = cast("ProtocolSpec", protocol.spec)
        self._doing(f"measuring {spec.name}")
        code = load_protocol(spec.measures, protocol.base)
        device = self._view.adapter.device
        reset_peak_memory(device)
        self._view.take_digests()
        self._view.take_forward_seconds()
        started = time.monotonic()
        with self._open_relations(relations) as related:
            self._view.relate = related if relations else None
            try:
                outcome = _measure(code, spec, self._view)
            finally:
                self._view.relate = None
            needed, shared = self._view.take_forward_seconds()
            return _Measured(
                outcome=outcome,
                version=code.version,
                mechanistic=code.mechanistic,
                digests=self._view.take_digests() | related.take_digests(),
                seconds=time.monotonic() - started,
                peak_memory_mb=peak_memory_mb(device),
                forward_seconds=needed + related.take_forward_seconds(),
                shared_seconds=shared,
                related=dict(related.identities),
            )

    def _result(self, measurement: Measurement, measured: _Measured, gate: GateReading) -> Result:
        spec = cast("ProtocolSpec", measurement.protocol.spec)
        specs: dict[Literal["model", "task", "training", "protocol"], dict[str, Any]] = {
            **self._cell.specs(),
            "protocol": resolved_values(spec),
        }
        return Result(
            identity=measurement.identity,
            cell=self._cell.key,
            protocol=spec.name,
            protocol_version=measured.version,
            specs=specs,
            sites=list(self._view.adapter.sites),
            chance=self._chances(),
            clean_accuracy=self._record.clean_accuracy,
            gate=gate,
            metrics=to_metrics(measured.outcome.readings, spec, gate if measured.mechanistic else None),
            arrays={name: PackedArray.pack(values) for name, values in measured.outcome.arrays.items()},
            digests=measured.digests,
            related=measured.related,
            seconds=measured.seconds,
            forward_seconds=measured.forward_seconds,
            shared_seconds=measured.shared_seconds,
            peak_memory_mb=measured.peak_memory_mb,
            provenance=provenance(self._view.adapter.device),
        )

    def _chances(self) -> dict[str, float]:
        """Accuracy of the best predictor that sees only the position, at each evaluation length."""
        if not self._chance:
            target = self._view.task.target
            for length in self._view.spec.lengths.evaluate:
                seen = self._view.data("probe_train", length).states[target]
                majority_L = majority_by_position(seen, self._view.task.classes[target])
                found = self._view.data("evaluate", length).states[target] == majority_L
                self._chance[str(length)] = float(found.mean())
        return self._chance


def measured_gate(cell: Cell, view: View) -> GateReading:
    """What a cell shows at the gate, from its gate's protocol, measured now."""
    spec = cast("ProtocolSpec", cell.gate_protocol.spec)
    code = load_protocol(spec.measures, cell.gate_protocol.base)
    return gate_reading(cell.gate, cell.gate_length, _measure(code, spec, view).readings)


def _measure(code: ProtocolCode, spec: ProtocolSpec, view: View) -> Outcome:
    return checked(code.measure(view, code.params.model_validate(spec.params)), spec.name)


def gate_reading(gate: Gate, length: int, readings: Sequence[Reading]) -> GateReading:
    """What `readings` of the gate's protocol say at the gate; CellFailed if they do not have its metric."""
    name = gate.metric.partition(".")[2]
    found = [each for each in readings if each.metric == name and each.at.get("length", length) == length]
    found = [each for each in found if set(each.at) <= {"length"}]
    if len(found) != 1:
        raise CellFailed(
            f"The gate asks for {gate.metric} at length {length}, and its protocol gives {len(found)} of these."
        )
    value = found[0].value
    number = _finite(value) if isinstance(value, int | float | np.number) else None
    passed = number is not None and number >= gate.at_least
    return GateReading(metric=gate.metric, at_length=length, at_least=gate.at_least, value=number, passed=passed)


def to_metrics(readings: Sequence[Reading], spec: ProtocolSpec, gate: GateReading | None) -> list[Metric]:
    """Readings with what the protocol's YAML declares of them; below a gate (given for mechanistic ones) they say so.

    Raises
    ------
    CellFailed
        If a reading has no declaration, or two have the same coordinates.
    """
    metrics = [_to_metric(reading, spec, gate) for reading in readings]
    seen: set[tuple[str, tuple[tuple[str, Any], ...]]] = set()
    for metric in metrics:
        key = (metric.metric, tuple(sorted(metric.at.items())))
        if key in seen:
            raise CellFailed(f"The protocol {spec.name} gives {metric.metric} at {metric.at} twice.")
        seen.add(key)
    return metrics


def _to_metric(reading: Reading, spec: ProtocolSpec, gate: GateReading | None) -> Metric:
    declared = spec.metrics.get(reading.metric)
    if declared is None:
        raise CellFailed(
            f"The protocol {spec.name} gives the metric {reading.metric!r}, and its YAML declares only "
            f"{', '.join(spec.metrics)}. Add it under metrics, with title, unit and direction."
        )
    value = reading.value if isinstance(reading.value, str) else _finite(reading.value)
    _check_coordinates(reading, declared, spec)
    status, reason = _status(reading, value, gate)
    return Metric(
        metric=reading.metric,
        at={name: place if isinstance(place, str) else int(place) for name, place in reading.at.items()},
        value=value,
        low=_finite(reading.low),
        high=_finite(reading.high),
        n=None if reading.n is None else int(reading.n),
        unit=declared.unit,
        direction=declared.direction,
        status=status,
        reason=reason,
    )


def _check_coordinates(reading: Reading, declared: MetricSpec, spec: ProtocolSpec) -> None:
    """Where the YAML declares a metric's coordinates, its numbers have them; without a number, some may lack."""
    if declared.at is None:
        return
    unknown = reading.at.keys() - {*declared.at, *declared.sometimes}
    missing = declared.at if reading.value is not None else []
    if unknown or not reading.at.keys() >= set(missing):
        given = ", ".join(reading.at) or "no coordinates"
        raise CellFailed(
            f"The protocol {spec.name} gives {reading.metric} at {given}, and its YAML declares "
            f"{', '.join(declared.at) or 'none'}. Mend `at` of the metric there, or leave it out."
        )


def _status(reading: Reading, value: float | str | None, gate: GateReading | None) -> tuple[Status, str | None]:
    if value is None and reading.status == "ok":
        said = "no value" if reading.value is None else f"the protocol gave {reading.value}"
        return "undefined", reading.reason or said
    if value is not None and gate is not None and not gate.passed:
        # Whatever else is wrong with a number, below the gate it may not be used at all.
        shown = "undefined" if gate.value is None else f"{gate.value:.3f}"
        below = f"{gate.metric} at length {gate.at_length} is {shown}, below {gate.at_least:g}"
        also = "" if reading.status == "ok" else f"; also {reading.status}"
        return "below_gate", below + also
    return reading.status, reading.reason


def _finite(value: Any) -> float | None:
    """A plain finite float, or None: result files hold neither numpy numbers nor NaN."""
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None
