"""Family `parity`: bits, and whether the number of ones so far is odd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .base import Batch, IntArray, Task
from .contract import check_position, check_size
from .parameters import Parameters, check_target

__all__ = ["Parity", "build"]


class Parity:
    """Independent bits; the state `parity` is the exclusive or of the prefix.

    Parameters
    ----------
    probability_of_one : float
        How often a bit is 1.
    """

    family = "parity"
    version = 1
    vocabulary: tuple[str, ...] = ("0", "1")
    classes: Mapping[str, int] = {"parity": 2}

    def __init__(self, probability_of_one: float = 0.5) -> None:
        self.target = "parity"
        self.probability_of_one = probability_of_one

    def sample(self, n: int, length: int, rng: np.random.Generator) -> Batch:
        """`n` sequences of `length` bits."""
        check_size(n, length)
        return _labelled((rng.random((n, length)) < self.probability_of_one).astype(np.int64))

    def corrupt(self, batch: Batch, position: int, rng: np.random.Generator) -> Batch:  # noqa: ARG002
        """The bit at `position` flipped; nothing else changes, and there is no choice to draw."""
        check_position(batch, position)
        tokens = batch.tokens.copy()
        tokens[:, position] ^= 1
        return _labelled(tokens)


def build(params: Mapping[str, Any], target: str) -> Task:
    """The task for a spec's parameters: `probability_of_one` (default 0.5)."""
    given = Parameters("parity", params, ("probability_of_one",))
    check_target("parity", target, Parity.classes)
    return Parity(given.probability("probability_of_one", default=0.5))


def _labelled(tokens: IntArray) -> Batch:
    return Batch(tokens, {"parity": np.bitwise_xor.accumulate(tokens, axis=1)})
