"""How long the forward passes of a model take: what a protocol's wall time is compared with."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ...adapters.base import Adapter, Edit, Fired, FloatArray, IntArray

__all__ = ["TimedAdapter"]


class TimedAdapter:
    """An adapter that adds up the seconds of its forward passes; everything else is the wrapped adapter's.

    Attributes
    ----------
    seconds : float
        Spent in forward passes so far.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self.seconds = 0.0
        self.version = adapter.version
        self.sites = adapter.sites
        self.components = adapter.components
        self.classes = adapter.classes
        self.module: Any = adapter.module
        self.device: Any = adapter.device

    def logits(self, tokens: IntArray) -> FloatArray:
        """See `Adapter`."""
        with self._timed():
            return self._adapter.logits(tokens)

    def capture(
        self, tokens: IntArray, sites: Sequence[str] | None = None, positions: IntArray | None = None
    ) -> dict[str, FloatArray]:
        """See `Adapter`."""
        with self._timed():
            return self._adapter.capture(tokens, sites, positions)

    def head(self, activations: FloatArray) -> FloatArray:
        """See `Adapter`."""
        with self._timed():
            return self._adapter.head(activations)

    def resume(self, tokens: IntArray, site: str, activations: FloatArray) -> FloatArray:
        """See `Adapter`."""
        with self._timed():
            return self._adapter.resume(tokens, site, activations)

    def edit(self, edits: Mapping[str, Edit]) -> AbstractContextManager[Fired]:
        """See `Adapter`."""
        return self._adapter.edit(edits)

    def ablate(self, component: str, mode: str) -> AbstractContextManager[Fired]:
        """See `Adapter`."""
        return self._adapter.ablate(component, mode)

    @contextmanager
    def _timed(self) -> Generator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started
