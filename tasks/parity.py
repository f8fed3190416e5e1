"""Family `parity`: bits, and whether the number of ones so far is odd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .base import Batch, IntArray, Task
from .contract import check_position, check_size
from .described import StateVariable
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
    variables: Mapping[str, StateVariable] = {
        "parity": StateVariable("Whether the number of ones up to here is odd.", ("even", "odd"))
    }

    def __init__(self, probability_of_one: float = 0.5) -> None:
        self.target = "parity"
        self.probability_of_one = probability_of_one

    def sample(self, n: int, length: int, rng: np.random.Generator) -> Batch:
        """`n` sequences of `length` bits."""
        check_size(n, length)
        return self.label((rng.random((n, length)) < self.probability_of_one).astype(np.int64))

    def corrupt(self, batch: Batch, position: int, rng: np.random.Generator) -> Batch:  # noqa: ARG002
        """The bit at `position` flipped; nothing else changes, and there is no choice to draw."""
        check_position(batch, position)
        tokens = batch.tokens.copy()
        tokens[:, position] ^= 1
        return self.label(tokens)

    def label(self, tokens: IntArray) -> Batch:
        """Bits (n, length) with their parity."""
        return Batch(tokens, {"parity": np.bitwise_xor.accumulate(tokens, axis=1)})


def build(params: Mapping[str, Any], target: str) -> Task:
    """The task for a spec's parameters: `probability_of_one` (default 0.5)."""
    given = Parameters("parity", params, ("probability_of_one",))
    check_target("parity", target, Parity.classes)
    return Parity(given.probability("probability_of_one", default=0.5))
