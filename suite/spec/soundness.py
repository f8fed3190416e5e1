"""Whether a record that is valid by its schema can be used: what every reader of result files relies on.

The schema says which fields there are and of what type; this says that they fit each other and can be computed with.
Each check raises ValueError as `field: what was found — what would be right`; whoever reads names the file.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from .results import Metric, PackedArray, Record, Result, SuiteRecord
from .schema import ProtocolSpec, SuiteSpec, TaskSpec

__all__ = ["check_numbers", "check_record", "first_fault"]

LARGEST = 1e15
"""No measurement is further from 0; sums and squares of such numbers still are numbers."""
_MOST_VALUES = 50_000_000
_NUMBERS = ("share", "pp", "skill")
_IDENTITY = re.compile(r"[0-9a-f]{8,64}")
M = TypeVar("M", bound=BaseModel)


def check_numbers(content: Any) -> None:
    """Parsed JSON holds no number that cannot be computed with; ValueError names the first that does."""
    pending: list[tuple[tuple[str, ...], Any]] = [((), content)]
    while pending:
        place, value = pending.pop()
        if isinstance(value, dict):
            found = cast("dict[str, Any]", value)
            pending += [((*place, key), inner) for key, inner in found.items()]
        elif isinstance(value, list):
            pending += [((*place, str(index)), inner) for index, inner in enumerate(cast("list[Any]", value))]
        elif isinstance(value, int | float) and not -LARGEST <= value <= LARGEST:
            shown = f"{value:.3g}" if isinstance(value, float) else f"a whole number of {value.bit_length()} bits"
            raise _wrong(".".join(place), shown, "a number within ±1e15")


def check_record(record: Record) -> None:
    """A result or a suite record is whole and fits together; other records need no more than their schema."""
    if isinstance(record, Result):
        _check_result(record)
    elif isinstance(record, SuiteRecord):
        _check_suite(record)


def first_fault(error: ValueError) -> str:
    """The first thing that is wrong, on one line."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        return f"{where}: {what}"[:300] if where else what[:300]
    return (str(error).splitlines() or ["it is not a record"])[0]


def _check_result(result: Result) -> None:
    _check_identity("identity", result.identity)
    _check_identity("cell.identity", result.cell.identity)
    _check_seed("cell.seed", result.cell.seed)
    if not result.sites:
        raise _wrong("sites", "it names no sites", "the model's sites, in order")
    if len(set(result.sites)) < len(result.sites):
        raise _wrong("sites", "a site stands twice", "each site once")
    for part in ("model", "task", "training", "protocol"):
        if part not in result.specs:
            raise _wrong(f"specs.{part}", "missing", f"the resolved {part} spec")
    task = _valid("specs.task", TaskSpec, result.specs["task"])
    protocol = _valid("specs.protocol", ProtocolSpec, result.specs["protocol"])
    for field, found, named in (
        ("cell.task", result.cell.task, task.name),
        ("cell.model", result.cell.model, result.specs["model"].get("name")),
        ("protocol", result.protocol, protocol.name),
    ):
        if found != named:
            raise _wrong(field, repr(found), f"{named!r}, as its spec says")
    gate = result.gate
    if gate.passed != (gate.value is not None and gate.value >= gate.at_least):
        what = f"what a value of {gate.value} comes to where {gate.at_least:g} is asked for"
        raise _wrong("gate.passed", str(gate.passed).lower(), what)
    for length in result.chance:
        if not (length.isascii() and length.isdigit()):
            raise _wrong("chance", f"the key {length!r:.40}", "a length, in digits")
    if not result.metrics and result.status == "ok":
        raise _wrong("metrics", "it holds none", "what the protocol measured, or status failed")
    for index, metric in enumerate(result.metrics):
        field, named = f"metrics.{index}", metric.metric
        if named not in protocol.metrics:
            raise _wrong(f"{field}.metric", f"{named!r:.80}", "one that specs.protocol.metrics declares")
        if isinstance(metric.value, str) and (metric.low is not None or protocol.metrics[named].unit in _NUMBERS):
            raise _wrong(f"{field}.value", f"{metric.value!r:.80}", "a number, or null")
        _check_metric(field, metric)
    sizes = {name: _check_array(f"arrays.{name}", packed) for name, packed in result.arrays.items()}
    if protocol.measures == "behaviour":
        _check_counts(result, protocol, sizes)


def _check_metric(field: str, metric: Metric) -> None:
    for part in ("at", "status"):
        if part not in metric.model_fields_set:
            raise _wrong(f"{field}.{part}", "missing", "what the run wrote, since nothing can stand for it")
    if (metric.low is None) != (metric.high is None):
        raise _wrong(field, f"{metric.metric} has one end of an interval", "both, low and high, or neither")
    if metric.low is not None and metric.high is not None and metric.low > metric.high:
        raise _wrong(f"{field}.low", f"{metric.low:g} is above high, {metric.high:g}", "low at most high")
    least, most = metric.span
    if isinstance(metric.value, float) and not least - 1e-9 <= metric.value <= most + 1e-9:
        right = "0 to 1" if math.isfinite(least) else "1 at most"
        raise _wrong(f"{field}.value", f"{metric.metric} of {metric.value:g}", right)
    if metric.value is None and metric.status == "ok":
        raise _wrong(f"{field}.value", "null with status ok", "a status and a reason why there is none")
    if metric.n is not None and metric.n < 0:
        raise _wrong(f"{field}.n", str(metric.n), "a number of sequences, 0 or more")


def _check_array(field: str, packed: PackedArray) -> tuple[int, ...]:
    """The shape of an array that can be unpacked."""
    if any(side < 0 for side in packed.shape) or math.prod(packed.shape) > _MOST_VALUES:
        raise _wrong(f"{field}.shape", str(packed.shape), f"sides of 0 or more, {_MOST_VALUES:,} values at most")
    try:
        packed.unpack()
    except (ValueError, zlib.error) as error:
        raise _wrong(f"{field}.data", str(error), "zlib-compressed bytes of that shape in base64") from error
    return tuple(packed.shape)


def _check_counts(result: Result, protocol: ProtocolSpec, sizes: Mapping[str, tuple[int, ...]]) -> None:
    """Behaviour has the counts behind every accuracy, one for each of its sequences."""
    first = protocol.params.get("min_position", 0)
    if not isinstance(first, int) or isinstance(first, bool) or first < 0:
        raise _wrong("specs.protocol.params.min_position", repr(first), "a position, 0 or more")
    for metric in result.metrics:
        if metric.metric != "accuracy" or metric.value is None:
            continue
        length = metric.at.get("length")
        if not isinstance(length, int) or length <= first:
            raise _wrong("specs.protocol.params.min_position", f"{first}", f"a position of a sequence of {length}")
        for name in (f"correct/{length}", f"chance/{length}"):
            wanted = f"{'' if metric.n is None else f'{metric.n} '}counts, one for each sequence"
            if name not in sizes:
                raise _wrong(f"arrays.{name}", "missing", wanted)
            if len(sizes[name]) != 1 or sizes[name][0] < 1 or metric.n not in (None, sizes[name][0]):
                raise _wrong(f"arrays.{name}.shape", str(list(sizes[name])), wanted)


def _check_suite(record: SuiteRecord) -> None:
    _valid("suite", SuiteSpec, record.suite)
    parts: tuple[tuple[str, Mapping[str, dict[str, Any]], type[BaseModel] | None], ...] = (
        ("tasks", record.tasks, TaskSpec),
        ("protocols", record.protocols, ProtocolSpec),
        ("models", record.models, None),  # a model that cannot be shown on a board still has its numbers
    )
    for field, specs, kind in parts:
        if not specs:
            raise _wrong(field, "it names none", f"the resolved {field[:-1]} specs by name")
        for name, spec in specs.items():
            if kind is not None:
                _valid(f"{field}.{name}", kind, spec)
                if spec["name"] != name:
                    raise _wrong(f"{field}.{name}", f"the spec is named {spec['name']!r:.80}", "the spec of that name")
    cells = {cell.identity for cell in record.cells}
    if not cells or not record.measurements:
        raise _wrong("measurements" if cells else "cells", "it names none", "everything that the suite asks for")
    for index, cell in enumerate(record.cells):
        _check_identity(f"cells.{index}.identity", cell.identity)
        _check_seed(f"cells.{index}.seed", cell.seed)
        for field, named, known in (("model", cell.model, record.models), ("task", cell.task, record.tasks)):
            if named not in known:
                raise _wrong(f"cells.{index}.{field}", f"{named!r:.80}", f"one of {field}s: {', '.join(known)}")
    for index, entry in enumerate(record.measurements):
        for key in ("identity", "cell", "protocol"):
            if key not in entry:
                raise _wrong(f"measurements.{index}.{key}", "missing", "identity, cell and protocol of each")
        _check_identity(f"measurements.{index}.identity", entry["identity"])
        for key, named, known in (("cell", entry["cell"], cells), ("protocol", entry["protocol"], record.protocols)):
            if named not in known:
                raise _wrong(f"measurements.{index}.{key}", f"{named!r:.80}", f"one that stands in {key}s")


def _check_identity(field: str, found: str) -> None:
    if not _IDENTITY.fullmatch(found):
        raise _wrong(field, f"{found!r:.80} is not an identity", "8 to 64 hexadecimal digits")


def _check_seed(field: str, found: int) -> None:
    if found < 0:
        raise _wrong(field, str(found), "a seed, 0 or more")


def _valid(field: str, kind: type[M], content: Mapping[str, Any]) -> M:
    validate: Callable[[Any], M] = kind.model_validate
    try:
        return validate(content)
    except ValidationError as error:
        place, _, why = first_fault(error).partition(": ")
        if " — " in why:
            raise ValueError(f"{field}.{place}: {why}") from error
        raise _wrong(f"{field}.{place}", why, "a spec as `layerstate show` prints it") from error


def _wrong(field: str, found: str, right: str) -> ValueError:
    return ValueError(f"{field}: {found} — {right} would be right")
