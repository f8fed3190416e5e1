"""A trained cell as protocols see it: data, activations and logits, each made once and shared by all protocols."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ...adapters.base import Adapter, FloatArray
from ...tasks import digest, draw
from ...tasks.base import Batch, Task
from ..spec.schema import TaskSpec
from .errors import CellFailed

__all__ = ["View"]

T = TypeVar("T", bound=np.generic)


class View:
    """The runner's `CellView`; what it holds is freed with it, after the cell.

    Parameters
    ----------
    adapter : Adapter
        The trained model.
    task : Task
        The generator.
    spec : TaskSpec
        Lengths, sizes, states and target.
    seed : int
        The cell's seed.
    build : callable
        Builds the same model anew, untrained.
    """

    def __init__(self, adapter: Adapter, task: Task, spec: TaskSpec, seed: int, build: Callable[[], Adapter]) -> None:
        self.adapter = adapter
        self.task = task
        self.spec = spec
        self.seed = seed
        self._used: set[tuple[str, int]] = set()
        self._digests: dict[tuple[str, int], str] = {}
        self._build = build
        self._untrained: Adapter | None = None
        self._data: dict[tuple[str, int], Batch] = {}
        self._activations: dict[tuple[str, int, bool], Mapping[str, FloatArray]] = {}
        self._logits: dict[tuple[str, int], FloatArray] = {}

    def untrained(self) -> Adapter:
        """The same architecture with the same seed, before any training (built once)."""
        if self._untrained is None:
            self._untrained = self._build()
        return self._untrained

    def data(self, split: str, length: int) -> Batch:
        """The measuring data of a split at a length; the same for all models and seeds."""
        key = (split, length)
        if key not in self._data:
            batch = draw(self.task, split, self._size(split), length, seed=0)
            self._digests[key] = digest(batch)
            self._data[key] = Batch(
                _frozen(batch.tokens), {name: _frozen(value) for name, value in batch.states.items()}
            )
        self._used.add(key)
        return self._data[key]

    def activations(self, split: str, length: int, *, trained: bool = True) -> Mapping[str, FloatArray]:
        """Clean activations (n, length, width) of every site on `data(split, length)`, float32."""
        key = (split, length, trained)
        tokens = self.data(split, length).tokens
        if key not in self._activations:
            adapter = self.adapter if trained else self.untrained()
            captured = adapter.capture(tokens)
            for site, values in captured.items():
                if not np.isfinite(values).all():
                    raise CellFailed(f"The activations at {site} are not finite on {split} at length {length}.")
            self._activations[key] = {site: _frozen(values) for site, values in captured.items()}
        return self._activations[key]

    def logits(self, split: str, length: int) -> FloatArray:
        """Clean logits (n, length, classes) of the trained model on `data(split, length)`."""
        key = (split, length)
        tokens = self.data(split, length).tokens
        if key not in self._logits:
            logits = self.adapter.logits(tokens)
            if not np.isfinite(logits).all():
                raise CellFailed(f"The logits are not finite on {split} at length {length}.")
            self._logits[key] = _frozen(logits)
        return self._logits[key]

    def rng(self, purpose: str) -> np.random.Generator:
        """A generator that depends on the cell's seed and `purpose` only."""
        return np.random.default_rng([self.seed, int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8])])

    def take_digests(self) -> dict[str, str]:
        """The digests of the data used since the last call, by split/length."""
        found = {f"{split}/{length}": self._digests[split, length] for split, length in sorted(self._used)}
        self._used.clear()
        return found

    def _size(self, split: str) -> int:
        sizes = {
            "probe_train": self.spec.sizes.probe_train,
            "probe_test": self.spec.sizes.probe_test,
            "evaluate": self.spec.sizes.evaluate,
        }
        if split not in sizes:
            raise CellFailed(f"A protocol asked for the split {split!r}; there is {', '.join(sizes)}.")
        return sizes[split]


def _frozen(values: NDArray[T]) -> NDArray[T]:
    """The same array, read-only: no protocol can change what another one reads."""
    values.flags.writeable = False
    return values
