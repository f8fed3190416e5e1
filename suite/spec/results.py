"""The files a run leaves behind, as strict pydantic models; their JSON Schema is generated from here."""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "SCHEMA_VERSION",
    "CellKey",
    "CellRecord",
    "Curve",
    "GateReading",
    "Metric",
    "PackedArray",
    "Provenance",
    "Result",
    "Status",
    "SuiteRecord",
    "natural_span",
]

SCHEMA_VERSION = 1

Status = Literal["ok", "below_gate", "not_converged", "undefined", "failed"]
Coordinate = str | int


class Record(BaseModel):
    """Base of all records: unknown keys, conversions, NaN and infinity are errors."""

    # As in schema.py: docstrings of fields are read by json_schema.py only, and validators are built at first use.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)


class Metric(Record):
    """A number with its coordinates."""

    metric: str
    """Name within its protocol."""
    at: dict[str, Coordinate] = Field(default_factory=dict[str, Coordinate])
    """Coordinates: site, length, variable, control, ruler, fill, rank, mode …"""
    value: float | str | None
    """The number (or the word, for a shape); null where there is none, and then `status` and `reason` say why."""
    low: float | None = None
    """Lower end of the 95 % interval."""
    high: float | None = None
    """Upper end of the 95 % interval."""
    n: int | None = None
    """How many sequences (or other independent units) it rests on."""
    unit: str
    """As declared by the protocol."""
    direction: Literal["higher", "lower", "none"]
    """As declared by the protocol."""
    status: Status = "ok"
    """Whether the number may be used."""
    reason: str | None = None
    """One word or sentence for a status other than ok."""

    @property
    def number(self) -> float:
        """The value; NaN where it is a word, or missing."""
        return self.value if isinstance(self.value, float) else math.nan

    @property
    def below(self) -> float:
        """How far the interval reaches below the value; NaN where there is none."""
        return math.nan if self.low is None else max(0.0, self.number - self.low)

    @property
    def above(self) -> float:
        """How far the interval reaches above the value; NaN where there is none."""
        return math.nan if self.high is None else max(0.0, self.high - self.number)

    @property
    def is_converged(self) -> bool:
        """Whether every fit behind it converged; below the gate, the reason says so."""
        return self.status != "not_converged" and "not_converged" not in (self.reason or "")

    @property
    def span(self) -> tuple[float, float]:
        """The range outside of which it can have no value: 0 to 1 for an accuracy, up to 1 for a skill."""
        return natural_span(self.metric)


def natural_span(metric: str) -> tuple[float, float]:
    """The range of a metric's values, by its name: 0 to 1 for an accuracy, up to 1 for a skill, else endless."""
    last = metric.rpartition("_")[2]
    return (0.0 if last == "accuracy" else -math.inf, 1.0 if last in ("accuracy", "skill") else math.inf)


class PackedArray(Record):
    """A small integer array, compact: zlib-compressed little-endian bytes in base64."""

    dtype: Literal["uint8", "uint16", "int32"]
    shape: list[int]
    data: str

    @classmethod
    def pack(cls, values: NDArray[Any]) -> PackedArray:
        """Pack integers in the smallest of the three types that holds them; ValueError for anything else."""
        if values.dtype.kind not in "iu":
            raise ValueError(f"a packed array holds whole numbers, not {values.dtype}")
        low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
        if not -(2**31) <= low <= high < 2**31:
            raise ValueError(f"a packed array holds numbers of 32 bits, not {low} to {high}")
        dtype = "uint8" if low >= 0 and high < 2**8 else "uint16" if low >= 0 and high < 2**16 else "int32"
        raw = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()
        return cls(dtype=dtype, shape=list(values.shape), data=base64.b64encode(zlib.compress(raw, 9)).decode())

    def unpack(self) -> NDArray[np.int64]:
        """The integers, as int64; ValueError where the bytes do not match the shape."""
        count = 1
        for side in self.shape:
            count *= side
        size = count * np.dtype(self.dtype).itemsize
        decoder = zlib.decompressobj()
        raw = decoder.decompress(base64.b64decode(self.data, validate=True), size + 1)
        if len(raw) != size:
            raise ValueError(f"packed array of shape {self.shape} needs {size} bytes")
        return np.frombuffer(raw, np.dtype(self.dtype).newbyteorder("<")).reshape(self.shape).astype(np.int64)


class Provenance(Record):
    """What the numbers were made with."""

    layerstate: str
    """Package version."""
    commit: str | None
    """Git commit of the package's checkout, if it runs from one."""
    dirty: bool | None
    """Whether that checkout had uncommitted changes."""
    python: str
    torch: str
    numpy: str
    platform: str
    device: str
    threads: int
    """Compute threads of the cell's process."""
    lock: str | None
    """sha256 of requirements.lock, if there is one."""
    time: str
    """UTC, ISO 8601."""


class CellKey(Record):
    """Which cell: its identity and the names of its parts."""

    identity: str
    model: str
    task: str
    seed: int
    without: str | None = None
    """component/mode of what is ablated throughout its training: such a cell only serves others, in no table."""


class GateReading(Record):
    """The gate and what the cell showed there."""

    metric: str
    at_length: int
    at_least: float
    value: float | None
    passed: bool


class Curve(Record):
    """The training curve, one entry an evaluation."""

    step: list[int]
    loss: list[float]
    """Mean training loss since the entry before, in nats."""
    accuracy: list[float]
    """Token accuracy on the validation split at the training length."""


class CellRecord(Record):
    """A trained cell: `cells/<identity>/cell.json`, written after its weights."""

    schema_version: Literal[1] = SCHEMA_VERSION
    cell: CellKey
    specs: dict[Literal["model", "task", "training"], dict[str, Any]]
    """The resolved specs it was trained from."""
    parameters: int
    """Number of trainable parameters."""
    steps: int
    """Steps taken."""
    stopped_early: bool
    curve: Curve
    clean_accuracy: float
    """Token accuracy on the `evaluate` split at the training length."""
    weights_sha256: str
    """Of `weights.safetensors` beside it."""
    seconds: float
    """Wall time of the training."""
    peak_memory_mb: float
    provenance: Provenance


class Result(Record):
    """One measurement of one cell: `results/<identity>.json`."""

    schema_version: Literal[1] = SCHEMA_VERSION
    identity: str
    """Of this measurement: the file's name."""
    cell: CellKey
    protocol: str
    protocol_version: int
    specs: dict[Literal["model", "task", "training", "protocol"], dict[str, Any]]
    """The resolved specs."""
    sites: list[str]
    """The model's sites, in order."""
    chance: dict[str, float]
    """Position-only chance at each evaluation length (keys are lengths), for the target."""
    clean_accuracy: float
    gate: GateReading
    metrics: list[Metric]
    arrays: dict[str, PackedArray] = Field(default_factory=dict[str, PackedArray])
    """Per-sequence counts that intervals over seeds and paired differences need."""
    digests: dict[str, str]
    """split/length to the digest of the data that was used; task:split/length for that of a related task."""
    related: dict[str, str] = Field(default_factory=dict[str, str])
    """Identities of the other cells that it rests on, by relation."""
    status: Literal["ok", "failed"] = "ok"
    reason: str | None = None
    seconds: float
    """Wall time of the measurement."""
    forward_seconds: float = 0.0
    """Time of the forward passes that the protocol needed, shared ones included."""
    shared_seconds: float = 0.0
    """The part of them that was made earlier, for other protocols."""
    peak_memory_mb: float
    provenance: Provenance


class SuiteRecord(Record):
    """A suite that was run into this folder: `suites/<name>-<identity>.json`."""

    schema_version: Literal[1] = SCHEMA_VERSION
    identity: str
    suite: dict[str, Any]
    """The resolved suite spec."""
    tasks: dict[str, dict[str, Any]]
    """Resolved task specs by name."""
    models: dict[str, dict[str, Any]]
    """Resolved model specs by name."""
    protocols: dict[str, dict[str, Any]]
    """Resolved protocol specs by name."""
    cells: list[CellKey]
    measurements: list[dict[Literal["identity", "cell", "protocol"], str]]
    """Every measurement that the suite asks for."""
