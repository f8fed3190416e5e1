"""A trained cell as protocols see it: data, activations and logits, each made once and shared by all protocols."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...adapters.base import Adapter, AdapterError, FloatArray
from ...tasks import digest, draw
from ...tasks.base import Batch, Task
from ..protocols.base import Related
from ..spec.schema import TaskSpec
from .errors import CellFailed
from .timing import TimedAdapter

__all__ = ["View"]

T = TypeVar("T", bound=np.generic)
V = TypeVar("V")

KEEP_BYTES = 600_000_000
"""Of captured activations; with the data of the one in hand, a formal model stays far under 2 GiB."""


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
    backend : str
        What it was trained with.
    keep_bytes : int
        How much of captured activations is kept for the protocols that come after; the oldest go first.

    Attributes
    ----------
    relate : callable or None
        Gives related cells by the names under which the protocol in hand declared them.
    """

    def __init__(
        self,
        adapter: Adapter,
        task: Task,
        spec: TaskSpec,
        seed: int,
        build: Callable[[], Adapter],
        *,
        backend: str = "",
        keep_bytes: int = KEEP_BYTES,
    ) -> None:
        self._timed = TimedAdapter(adapter)
        self.adapter: Adapter = self._timed
        self.task = task
        self.spec = spec
        self.seed = seed
        self.backend = backend
        self.relate: Callable[[str], Related] | None = None
        self._used: set[tuple[str, int]] = set()
        self._digests: dict[tuple[str, int], str] = {}
        self._build = build
        self._untrained: TimedAdapter | None = None
        self._data: dict[tuple[str, int], Batch] = {}
        self._activations: dict[tuple[str, int, bool], Mapping[str, FloatArray]] = {}
        self._keep_bytes = keep_bytes
        self._logits: dict[tuple[str, int], FloatArray] = {}
        self._once: dict[tuple[Any, ...], Any] = {}
        self._costs: dict[tuple[Any, ...], float] = {}
        self._asked: set[tuple[Any, ...]] = set()
        self._shared = 0.0

    def untrained(self) -> Adapter:
        """The same architecture with the same seed, before any training (built once)."""
        if self._untrained is None:
            self._untrained = TimedAdapter(self._build())
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
        found = self._activations.pop(key, None)
        if found is None:
            adapter = self.adapter if trained else self.untrained()
            with self._costing(("activations", *key)):
                captured = adapter.capture(tokens)
            for site, values in captured.items():
                if not np.isfinite(values).all():
                    raise AdapterError(f"The activations at {site} are not finite on {split} at length {length}.")
            found = {site: _frozen(values) for site, values in captured.items()}
        else:
            self._share(("activations", *key))
        self._activations[key] = found  # the last one used stands last
        self._forget_oldest()
        return found

    def logits(self, split: str, length: int) -> FloatArray:
        """Clean logits (n, length, classes) of the trained model on `data(split, length)`."""
        key = (split, length)
        tokens = self.data(split, length).tokens
        if key in self._logits:
            self._share(("logits", *key))
            return self._logits[key]
        with self._costing(("logits", *key)):
            logits = self.adapter.logits(tokens)
        if not np.isfinite(logits).all():
            raise AdapterError(f"The logits are not finite on {split} at length {length}.")
        self._logits[key] = _frozen(logits)
        return self._logits[key]

    def once(self, key: tuple[Any, ...], make: Callable[[], V]) -> V:
        """What `make` returns, made at the first call with `key` and shared by all protocols of a run."""
        if key in self._once:
            self._share(("once", *key))
        else:
            with self._costing(("once", *key)):
                made = make()
            self._once[key] = made
        return self._once[key]

    def related(self, name: str) -> Related:
        """The related cell that the protocol declared under this name."""
        if self.relate is None:
            raise CellFailed(f"The protocol asks for the related cell {name!r} and declares none in `relations`.")
        return self.relate(name)

    def take_forward_seconds(self) -> tuple[float, float]:
        """Seconds of the forward passes needed since the last call, and the part made before for other protocols."""
        shared, self._shared = self._shared, 0.0
        made = self._forward_seconds()
        for adapter in (self._timed, self._untrained):
            if adapter is not None:
                adapter.seconds = 0.0
        self._asked.clear()
        return made + shared, shared

    def _forward_seconds(self) -> float:
        return sum(adapter.seconds for adapter in (self._timed, self._untrained) if adapter is not None)

    @contextmanager
    def _costing(self, key: tuple[Any, ...]) -> Generator[None]:
        """Note what making something cost in forward passes, for those who find it made."""
        before = self._forward_seconds()
        yield
        self._costs[key] = self._forward_seconds() - before
        self._asked.add(key)

    def _share(self, key: tuple[Any, ...]) -> None:
        """Count what another protocol paid for, once a protocol."""
        if key not in self._asked:
            self._asked.add(key)
            self._shared += self._costs.get(key, 0.0)

    def _forget_oldest(self) -> None:
        while len(self._activations) > 1 and self._held_bytes() > self._keep_bytes:
            del self._activations[next(iter(self._activations))]

    def _held_bytes(self) -> int:
        return sum(values.nbytes for found in self._activations.values() for values in found.values())

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
