"""Ctrl-C: at once where nothing is lost by it, at the end of the step where a training can save its state."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Interrupt"]


class Interrupt:
    """Turns signals into KeyboardInterrupt, or, while `gently` is open, into a request that training polls.

    A second signal interrupts at once in any case.
    """

    def __init__(self) -> None:
        self.asked = False
        self._gentle = False

    @contextmanager
    def listening(self, *signals: signal.Signals) -> Generator[None]:
        """Handle `signals` inside; the handlers from before come back. Outside the main thread, nothing is changed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._handle) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def gently(self) -> Generator[None]:
        """Inside, the first signal only sets `asked`."""
        self._gentle = True
        try:
            yield
        finally:
            self._gentle = False
        if self.asked:
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        first = not self.asked
        self.asked = True
        if not (self._gentle and first):
            raise KeyboardInterrupt
