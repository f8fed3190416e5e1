"""The states of sequences that were read, not drawn: each token checked, each label by the family's own rules."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .base import Batch, IntArray, Task
from .errors import TaskError

__all__ = ["InvalidSequence", "Labeller", "labelled"]


class InvalidSequence(TaskError):
    """A sequence cannot be one of the task.

    Parameters
    ----------
    sequence, position : int
        Which one, and where in it, both from 0.
    reason : str
        What is wrong there, and what would be right.
    """

    def __init__(self, sequence: int, position: int, reason: str) -> None:
        super().__init__(f"sequence {sequence}, position {position}: {reason}")
        self.sequence = sequence
        self.position = position


@runtime_checkable
class Labeller(Protocol):
    """A task that can label sequences given to it."""

    def label(self, tokens: IntArray) -> Batch:
        """`tokens` (n, length), all in the vocabulary, with their states; InvalidSequence for what is none of its."""
        ...


def labelled(task: Task, tokens: NDArray[Any]) -> Batch:
    """`tokens` (n, length) with the states that the task's own rules give them.

    Raises
    ------
    InvalidSequence
        For the first sequence that is none of the task's, and the first position in it that shows it.
    TaskError
        If the family cannot label sequences.
    """
    if not isinstance(task, Labeller):
        raise TaskError(
            f"family {task.family!r} cannot label sequences that are given to it; it needs a method label(tokens) "
            "that returns a Batch",
            field="family",
        )
    outside = np.argwhere((tokens < 0) | (tokens >= len(task.vocabulary)))
    if len(outside):
        row, position = (int(number) for number in outside[0])
        size = len(task.vocabulary)
        raise InvalidSequence(
            row, position, f"the token {tokens[row, position]} is outside the vocabulary, which has 0 … {size - 1}"
        )
    return task.label(tokens.astype(np.int64))
