"""Family `flip_flop`: writes, reads and pauses, and what the memory holds (after Liu et al. 2023, arXiv:2306.00946)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .base import Batch, IntArray, Task
from .contract import check_position, check_size
from .described import StateVariable, numbered
from .errors import TaskError
from .parameters import Parameters, check_target

__all__ = ["FlipFlop", "build"]

_PAUSE, _READ, _FIRST_WRITE = 0, 1, 2


class FlipFlop:
    """Independent instructions: pause (``i``), read (``r``), write v (``w0``, ``w1`` …).

    The state `memory` is the value written last, `initial` before the first write; reads and pauses keep it.

    Parameters
    ----------
    values : int
        How many values the memory can hold.
    write_probability, read_probability : float
        How often a token is a write, its value drawn evenly, or a read; the rest are pauses.
    initial : int
        What the memory holds before the first write.
    """

    family = "flip_flop"
    version = 1

    def __init__(
        self, values: int = 2, write_probability: float = 0.1, read_probability: float = 0.1, initial: int = 0
    ) -> None:
        if write_probability + read_probability > 1.0:
            raise TaskError(
                f"write_probability {write_probability} and read_probability {read_probability} add up to more than 1",
                field="read_probability",
            )
        self.target = "memory"
        self.values = values
        self.write_probability = write_probability
        self.read_probability = read_probability
        self.initial = initial
        self.vocabulary = ("i", "r", *(f"w{value}" for value in range(values)))
        self.classes: Mapping[str, int] = {"memory": values}
        held = f"The value that was written last; {initial} before the first write."
        self.variables = {"memory": StateVariable(held, numbered(values))}

    def sample(self, n: int, length: int, rng: np.random.Generator) -> Batch:
        """`n` sequences of `length` instructions."""
        check_size(n, length)
        chance = rng.random((n, length))
        writes = chance < self.write_probability
        reads = ~writes & (chance < self.write_probability + self.read_probability)
        values = rng.integers(0, self.values, (n, length), dtype=np.uint8)
        return self.label(np.where(writes, values + _FIRST_WRITE, np.where(reads, _READ, _PAUSE)).astype(np.int64))

    def corrupt(self, batch: Batch, position: int, rng: np.random.Generator) -> Batch:
        """At `position` a write of a value that the memory does not hold there, drawn evenly; nothing else changes."""
        check_position(batch, position)
        tokens = batch.tokens.copy()
        held = self.label(tokens).states["memory"][:, position]
        other = (held + rng.integers(1, self.values, len(held))) % self.values
        tokens[:, position] = other + _FIRST_WRITE
        return self.label(tokens)

    def label(self, tokens: IntArray) -> Batch:
        """Instructions (n, length) with what the memory holds after each."""
        places: IntArray = np.arange(tokens.shape[1], dtype=np.int64)
        last_write = np.maximum.accumulate(np.where(tokens >= _FIRST_WRITE, places, -1), axis=1)
        written = np.take_along_axis(tokens, np.maximum(last_write, 0), axis=1) - _FIRST_WRITE
        return Batch(tokens, {"memory": np.where(last_write >= 0, written, self.initial)})


def build(params: Mapping[str, Any], target: str) -> Task:
    """The task for a spec's parameters.

    `values` (default 2), `write_probability` (0.1), `read_probability` (0.1), `initial` (0).
    """
    given = Parameters("flip_flop", params, ("values", "write_probability", "read_probability", "initial"))
    values = given.integer("values", low=2, high=64, default=2)
    task = FlipFlop(
        values,
        given.probability("write_probability", default=0.1),
        given.probability("read_probability", default=0.1),
        given.integer("initial", low=0, high=values - 1, default=0),
    )
    check_target("flip_flop", target, task.classes)
    return task
