"""What a protocol gets and what it gives: a trained cell in, readings out; it knows no architecture and no file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from ...adapters.base import Adapter, FloatArray
from ...tasks.base import Batch, Task
from ..spec.results import Coordinate, Status
from ..spec.schema import TaskSpec

__all__ = ["CellView", "Outcome", "Params", "ProtocolCode", "Reading"]


class Params(BaseModel):
    """Base of a protocol's parameters: unknown keys, conversions, NaN and infinity are errors."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """One number with its coordinates; the runner adds unit and direction from the protocol's YAML."""

    metric: str
    value: float | str | None
    at: Mapping[str, Coordinate] = field(default_factory=dict[str, Coordinate])
    low: float | None = None
    high: float | None = None
    n: int | None = None
    status: Status = "ok"
    reason: str | None = None


@dataclass
class Outcome:
    """What a protocol found.

    Attributes
    ----------
    readings : list of Reading
        Every metric with its coordinates.
    arrays : dict of str to int array
        Per-sequence counts behind the readings, for intervals over seeds and paired differences.
    """

    readings: list[Reading] = field(default_factory=list[Reading])
    arrays: dict[str, NDArray[np.int64]] = field(default_factory=dict[str, NDArray[np.int64]])


class CellView(Protocol):
    """A trained cell as protocols see it; data and activations are made once and shared by all protocols of a run.

    Attributes
    ----------
    adapter : Adapter
        The trained model.
    task : Task
        The generator.
    spec : TaskSpec
        Lengths, sizes, states and target.
    seed : int
        The cell's seed.
    """

    adapter: Adapter
    task: Task
    spec: TaskSpec
    seed: int

    def untrained(self) -> Adapter:
        """The same architecture with the same seed, before any training (built once)."""
        ...

    def data(self, split: str, length: int) -> Batch:
        """The data of a split (`probe_train`, `probe_test`, `evaluate`) at a length; the same for all models."""
        ...

    def activations(self, split: str, length: int, *, trained: bool = True) -> Mapping[str, FloatArray]:
        """Clean activations (n, length, width) of every site on `data(split, length)`."""
        ...

    def logits(self, split: str, length: int) -> FloatArray:
        """Clean logits (n, length, classes) of the trained model on `data(split, length)`."""
        ...

    def rng(self, purpose: str) -> np.random.Generator:
        """A generator that depends on the cell's seed and `purpose` only."""
        ...


@dataclass(frozen=True)
class ProtocolCode:
    """The measuring code behind a protocol spec.

    Attributes
    ----------
    version : int
        Raised whenever its numbers can change; part of the identity.
    mechanistic : bool
        Whether its metrics are worth nothing below the gate (then they carry `below_gate`).
    params : type
        Pydantic model of its parameters, a subclass of `Params`.
    measure : callable
        ``measure(cell: CellView, params) -> Outcome``.
    source_digest : str or None
        sha256 of the file, for a protocol from outside the package.
    """

    version: int
    mechanistic: bool
    params: type[Params]
    measure: Callable[[CellView, Any], Outcome]
    source_digest: str | None = None
