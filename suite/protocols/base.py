"""What a protocol gets and what it gives: a trained cell in, readings out; it knows no architecture and no file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ...adapters.base import Adapter, FloatArray
from ...tasks.base import Batch, Task
from ..spec.results import Coordinate, Status
from ..spec.schema import TaskLengths, TaskSpec

__all__ = ["CellView", "Outcome", "Params", "ProtocolCode", "Reading", "Related", "Relation", "ScoredParams"]

T = TypeVar("T")


class Params(BaseModel):
    """Base of a protocol's parameters: unknown keys, conversions, NaN and infinity are errors."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    def misfit(self, lengths: TaskLengths) -> tuple[str, str] | None:  # noqa: ARG002 (for those that ask more)
        """The parameter that does not fit a task of these lengths, and why — what would be right; None if all fit."""
        return None


class ScoredParams(Params):
    """Base of the parameters of protocols that score positions, from one on."""

    min_position: int = Field(default=0, ge=0)
    """The first position that counts."""

    at_all_lengths: ClassVar[bool] = False
    """Whether all evaluation lengths are scored, and not the training length alone."""

    def misfit(self, lengths: TaskLengths) -> tuple[str, str] | None:
        """`min_position` must leave a position at each length that is scored."""
        shortest = min(lengths.evaluate) if self.at_all_lengths else lengths.train
        if self.min_position < shortest:
            return None
        message = f"{self.min_position} leaves no position of a sequence of length {shortest}"
        return "min_position", f"{message} — at most {shortest - 1} would be right"


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


@dataclass(frozen=True, slots=True)
class Relation:
    """Another cell of the same seed that a protocol needs beside the one it measures: one of the two is given.

    Attributes
    ----------
    task : str or None
        The same model on this other task of the suite.
    without : tuple of str or None
        (component, mode): the same model on the same task, trained with the component ablated in this mode.
    """

    task: str | None = None
    without: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Related:
    """A related cell, trained; or the reason why there is none.

    Attributes
    ----------
    view : CellView or None
        The trained cell; one trained without a component runs without it.
    passed : bool
        Whether it passes the suite's gate.
    reason : str or None
        Why there is no view (`no_task: …`, `no_component: …`), or why the gate is not passed.
    backend : str
        What it was trained with (torch, device, threads): two cells are compared only where this is the same.
    """

    view: CellView | None
    passed: bool = False
    reason: str | None = None
    backend: str = ""


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
    backend : str
        What it was trained with, as in `Related.backend`.
    """

    adapter: Adapter
    task: Task
    spec: TaskSpec
    seed: int
    backend: str

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

    def once(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What `make` returns, made at the first call with `key` and shared by a run's protocols: clean probes, say.

        Everything that `make` depends on beside the cell belongs in the key.
        """
        ...

    def related(self, name: str) -> Related:
        """The related cell that the protocol declared under this name (see `ProtocolCode.relations`)."""
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
    relations : callable or None
        ``relations(task_name, params)``: by name the other cells that it needs when it measures a cell on this task.
    """

    version: int
    mechanistic: bool
    params: type[Params]
    measure: Callable[[CellView, Any], Outcome]
    source_digest: str | None = None
    relations: Callable[[str, Any], Mapping[str, Relation]] | None = None
