"""What every family checks about a request before it answers."""

from __future__ import annotations

from .base import Batch
from .errors import TaskError

__all__ = ["check_position", "check_size"]


def check_size(n: int, length: int) -> None:
    """Raise TaskError unless at least one sequence of at least one token is asked for."""
    if n < 1 or length < 1:
        raise TaskError(f"asked for {n} sequences of {length} tokens; both must be at least 1")


def check_position(batch: Batch, position: int) -> None:
    """Raise TaskError unless `position` is a position of the sequences in `batch`."""
    length = batch.tokens.shape[1]
    if not 0 <= position < length:
        raise TaskError(f"position {position} is outside sequences of length {length}; it must be 0 … {length - 1}")
