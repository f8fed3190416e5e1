"""The border at which whatever goes wrong in one cell becomes a recorded failure, and the other cells go on."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal

from ...adapters import is_device_failure, is_out_of_memory
from ...tasks.errors import LayerstateError
from .errors import RunStopped
from .files import StoreError
from .store import Failure, now

__all__ = ["Attempts", "explain"]

Stage = Literal["process", "conformance", "training", "measuring"]


@dataclass
class Attempts:
    """What was tried on a cell, and what went wrong.

    Attributes
    ----------
    failures : list of Failure
        One an attempt that failed.
    tracebacks : list of str
        Theirs, for those who ask.
    """

    failures: list[Failure] = field(default_factory=list[Failure])
    tracebacks: list[str] = field(default_factory=list[str])

    def attempt(self, stage: Stage, protocol: str | None = None) -> _Attempt:
        """While open, an error is recorded and goes no further, unless it concerns the run as a whole."""
        return _Attempt(self, stage, protocol)


@dataclass
class _Attempt:
    attempts: Attempts
    stage: Stage
    protocol: str | None

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        # Ctrl-C goes on, and so does what is the same for all cells; a user's code that calls sys.exit() does not.
        if not isinstance(error, Exception | SystemExit) or isinstance(error, StoreError | RunStopped):
            return False
        failure = Failure(stage=self.stage, protocol=self.protocol, message=explain(error), time=now())
        self.attempts.failures.append(failure)
        self.attempts.tracebacks.append("".join(traceback.format_exception(error)))
        return True


def explain(error: Exception | SystemExit) -> str:
    """The message of an error, in words; for one that nobody foresaw, its type and the line it came from."""
    if isinstance(error, LayerstateError):
        return str(error)
    if is_out_of_memory(error):
        return "Out of memory. Use fewer --workers, smaller sizes in the task or a smaller batch_size in the training."
    if is_device_failure(error):
        return (
            f"The CUDA device failed: {_text(error)}. An index out of range in the model does this, such as a position "
            "beyond those it has. Run again with --device cpu, which says where."
        )
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (at {Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {_text(error)}{place}. Run with --debug to see the traceback."


def _text(error: BaseException) -> str:
    return " ".join(str(error).split())[:500] or "no message"
