"""A model's own code at work: what it raises in a forward pass becomes one message that says what failed and where."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from ..tasks.errors import LayerstateError
from .base import AdapterError

__all__ = ["ForwardFailed", "ModelRuns", "is_device_failure", "is_out_of_memory"]

_HERE = Path(__file__).parent
_OURS = tuple(str(_HERE.parent / name) + "/" for name in ("adapters", "suite", "tasks"))
_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD = sysconfig.get_path("stdlib") + "/"
LONGEST_MESSAGE = 500


class ForwardFailed(AdapterError):
    """The model's own code raised in a forward pass."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the machine was too small, which says nothing about the model's code."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or any(words in str(error) for words in ("can't allocate memory", "ALLOC_FAILED"))


def is_device_failure(error: BaseException) -> bool:
    """Whether the CUDA device stopped working for this process: nothing computed on it afterwards means anything."""
    return type(error).__name__ == "AcceleratorError" or "CUDA error" in str(error)


class ModelRuns:
    """While open, what the model's own code raises becomes one `ForwardFailed`: file, line, size of the batch, error.

    Left alone are a `LayerstateError`, Ctrl-C, want of memory, a device that no longer works, and whatever an edit or
    another hook of the adapter raises while the model runs: none of these is the model's.

    Parameters
    ----------
    shape : sequence of int
        Of the tokens or activations that the model was given: sequences, tokens, ….
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, LayerstateError) or not isinstance(error, Exception | SystemExit):
            return
        if is_out_of_memory(error) or is_device_failure(error) or _is_from_a_hook(error):
            return
        place = _place(error)
        count, length = self._shape[:2]
        plural = "s" if count > 1 else ""
        said = " ".join(traceback.format_exception_only(error)[-1].split())
        raise ForwardFailed(
            f"{place + ': ' if place else ''}running the module on {count} sequence{plural} of {length} tokens "
            f"failed: {said[:LONGEST_MESSAGE]}"
        ) from error


def _is_from_a_hook(error: BaseException) -> bool:
    """Whether the error came through code of the adapters again, below the call of the model."""
    return any(Path(file).parent == _HERE for file, _ in list(_frames(error))[1:])


def _place(error: BaseException) -> str | None:
    """file:line of the last frame that is neither torch's nor layerstate's, the user's own before any package's."""
    found = [(file, line) for file, line in _frames(error) if not file.startswith(("<", *_libraries()))]
    own = [(file, line) for file, line in found if not _INSTALLED & set(Path(file).parts)]
    return "{}:{}".format(*(own or found)[-1]) if found else None


def _frames(error: BaseException) -> Iterator[tuple[str, int]]:
    for frame, line in traceback.walk_tb(error.__traceback__):
        yield frame.f_code.co_filename, line


def _libraries() -> tuple[str, ...]:
    torch = sys.modules.get("torch")
    folder = str(Path(torch.__file__).parent) if torch is not None and torch.__file__ else None
    return (*_OURS, _STANDARD, *([folder + "/"] if folder else []))
