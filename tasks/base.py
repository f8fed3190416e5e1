"""The task contract: what every task family gives, and nothing about how it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Batch", "IntArray", "Task"]

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences with their state variables, labelled at every position.

    Attributes
    ----------
    tokens : int64 array (n, length)
        Token numbers, indices into the task's ``vocabulary``.
    states : dict of str to int64 array (n, length)
        For each state variable its value at t, given the tokens up to and *including* t.
    """

    tokens: IntArray
    states: Mapping[str, IntArray]

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, rows: NDArray[Any]) -> Batch:
        """The sequences at `rows` (indices or a boolean mask), states alike."""
        return Batch(self.tokens[rows], {name: value[rows] for name, value in self.states.items()})

    @classmethod
    def joined(cls, parts: Sequence[Batch]) -> Batch:
        """The sequences of all `parts`, one after the other; they have one length and the same states."""
        return cls(
            np.concatenate([part.tokens for part in parts]),
            {name: np.concatenate([part.states[name] for part in parts]) for name in parts[0].states},
        )


@runtime_checkable
class Task(Protocol):
    """A distribution over token sequences with state variables at every position.

    Attributes
    ----------
    family : str
        Name of the generator, as in a spec's ``family``.
    version : int
        Raised whenever the same parameters and seed would give other bytes; part of the identity.
    target : str
        The state variable that models are trained on; a key of `classes`.
    vocabulary : tuple of str
        One printable symbol a token number.
    classes : dict of str to int
        Number of values of each state variable.
    """

    family: str
    version: int
    target: str
    vocabulary: tuple[str, ...]
    classes: Mapping[str, int]

    def sample(self, n: int, length: int, rng: np.random.Generator) -> Batch:
        """`n` sequences of exactly `length` tokens, drawn with `rng` and nothing else."""
        ...

    def corrupt(self, batch: Batch, position: int, rng: np.random.Generator) -> Batch:
        """Valid sequences that differ from `batch` at `position`, where the target state differs too.

        Elsewhere they differ only as much as validity demands.
        """
        ...
