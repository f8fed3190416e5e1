"""Splits by content: which split a sequence is in depends on its tokens alone, so no two splits share a sequence.

The hash is multilinear in the tokens with odd 64-bit coefficients, seeded with the length and finished with the mixer
of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). Sixteen buckets: twelve train, one for each other split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .base import Batch, Task
from .contract import check_size
from .errors import TaskError

__all__ = ["SPLITS", "Seed", "SplitSampler", "digest", "draw", "split_index", "split_of"]

SPLITS: tuple[str, ...] = ("train", "validation", "probe_train", "probe_test", "evaluate")
"""Names of the splits; `split_of` gives indices into it."""

Seed = int | Sequence[int]
"""A whole number, or several, none negative."""

_TRAIN_BUCKETS = 12
_BUCKET_BITS = np.uint64(60)
_GOLDEN = 0x9E3779B97F4A7C15
# A split that has not turned up in this many sequences is taken to be empty: odds of e^-264 where it is not.
_PATIENCE = 4096
_PATIENCE_PER_SEQUENCE = 256


@runtime_checkable
class SplitSampler(Protocol):
    """A task over finite data, which can draw from one split without rejection."""

    def sample_split(self, split: str, n: int, length: int, rng: np.random.Generator) -> Batch:
        """`n` sequences of `length` tokens from `split`, with replacement."""
        ...


def split_of(tokens: NDArray[Any]) -> NDArray[np.int64]:
    """The split of each sequence, from its content and nothing else.

    Parameters
    ----------
    tokens : integer array (n, length)
        Token numbers.

    Returns
    -------
    int64 array (n,)
        Indices into `SPLITS`.
    """
    length = tokens.shape[1]
    values = tokens.astype(np.uint64)
    values += np.uint64(1)
    total = values @ _coefficients(length)
    bucket = _mix(total ^ np.uint64((length * _GOLDEN) & 0xFFFFFFFFFFFFFFFF)) >> _BUCKET_BITS
    return np.maximum(bucket.astype(np.int64) - (_TRAIN_BUCKETS - 1), 0)


def split_index(split: str) -> int:
    """Index of `split` in `SPLITS`; TaskError if there is no such split."""
    if split not in SPLITS:
        raise TaskError(f"no split {split!r}; the splits are {', '.join(SPLITS)}")
    return SPLITS.index(split)


def draw(task: Task, split: str, n: int, length: int, seed: Seed) -> Batch:
    """`n` sequences of `length` tokens from one split of a task.

    The stream of random numbers comes from (seed, split, length), so no two splits or lengths share one, nor do two
    seeds. The same arguments give the same bytes in any process.

    Parameters
    ----------
    task : Task
        Where sequences come from.
    split : str
        One of `SPLITS`.
    n, length : int
        How many sequences, of how many tokens each.
    seed : int or sequence of int
        Not negative and below 2**64 each; ``(cell_seed, step)`` gives each training step its own stream.

    Raises
    ------
    TaskError
        If `task` has too few different sequences of that length for the split to hold any, or hardly any.
    """
    check_size(n, length)
    index = split_index(split)
    rng = np.random.default_rng(_sequence_of(seed, index, length))
    if isinstance(task, SplitSampler):
        return task.sample_split(split, n, length, rng)
    return _rejected(lambda size: task.sample(size, length, rng), index, n, length)


def digest(batch: Batch) -> str:
    """SHA-256 over the tokens and all states: names in order, types, shapes and little-endian bytes."""
    total = hashlib.sha256()
    for name, values in (("tokens", batch.tokens), *sorted((f"state {k}", v) for k, v in batch.states.items())):
        little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        total.update(f"{name}\0{little.dtype.str}\0{little.shape}\0".encode())
        total.update(little.tobytes())
    return total.hexdigest()


def _rejected(sample: Callable[[int], Batch], index: int, n: int, length: int) -> Batch:
    """Sample until `n` sequences of split number `index` are found."""
    share = (_TRAIN_BUCKETS if index == 0 else 1) / 16
    parts: list[Batch] = []
    found = drawn = 0
    while found < n:
        if (not found and drawn >= _PATIENCE) or drawn >= _PATIENCE + _PATIENCE_PER_SEQUENCE * n:
            raise TaskError(
                f"split {SPLITS[index]!r} holds {'no' if not found else 'hardly any'} sequence of length {length}: "
                f"{found} in {drawn} drawn; a longer length has more different sequences"
            )
        size = int((n - found) / share * 1.15) + 16
        batch = sample(size)
        rows = np.flatnonzero(split_of(batch.tokens) == index)[: n - found]
        parts.append(batch.take(rows))
        found += len(rows)
        drawn += size
    return parts[0] if len(parts) == 1 else Batch.joined(parts)


def _sequence_of(seed: Seed, index: int, length: int) -> np.random.SeedSequence:
    """Each number as two 32-bit words, the length last: never 0, so no padding can make two of them alike."""
    numbers = [seed] if isinstance(seed, int | np.integer) else list(seed)
    if not numbers or any(not 0 <= int(number) < 2**64 for number in numbers):
        raise TaskError(f"a seed is one or more whole numbers from 0 to 2**64 - 1, not {seed!r}")
    words = [word for number in numbers for word in (int(number) & 0xFFFFFFFF, int(number) >> 32)]
    return np.random.SeedSequence([*words, index, length])


@lru_cache(maxsize=32)
def _coefficients(length: int) -> NDArray[np.uint64]:
    """Odd numbers (length,), the outputs of SplitMix64."""
    steps = np.arange(1, length + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    return _mix(steps) | np.uint64(1)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finishing step of SplitMix64; arithmetic modulo 2**64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
