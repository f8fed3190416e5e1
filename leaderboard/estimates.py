"""One number from several seeds, with an interval that covers seeds and sequences as far as the files allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..suite.measure.statistics import DRAWS
from ..suite.spec.results import Metric, Status
from .boards import Board, Entry

__all__ = ["At", "Estimate", "Estimates", "at", "combine"]

At = tuple[tuple[str, str | int], ...]
"""Coordinates, sorted by name."""
Place = tuple[str, str, str, At]
"""Task, protocol, metric, coordinates."""

_SEVERITY: tuple[Status, ...] = ("ok", "below_gate", "not_converged", "undefined", "failed")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric of one model on one task, over its seeds.

    Attributes
    ----------
    value : float, str or None
        Mean over the seeds that have a number; a word, or the words with their counts; None where there is none.
    low, high : float or None
        95 % interval. One seed: the file's own, over sequences. Several: seeds are resampled, and each seed's value moves
        within its own interval.
    seeds, asked : int
        Seeds that have a value, and seeds that were measured.
    status, reason
        The worst of the seeds'.
    """

    value: float | str | None
    low: float | None
    high: float | None
    seeds: int
    asked: int
    n: int | None
    unit: str
    direction: Literal["higher", "lower", "none"]
    status: Status
    reason: str | None

    @property
    def number(self) -> float | None:
        """The value, if it is a number."""
        return None if isinstance(self.value, str) else self.value


class Estimates:
    """All metrics of an entry, looked up by task, protocol, metric and coordinates."""

    def __init__(self, entry: Entry, board: Board) -> None:
        self._found: dict[Place, list[Metric]] = {}
        self._seeds = {
            (task, protocol): sum((task, seed, protocol) in entry.results for seed in board.seeds)
            for task in board.tasks
            for protocol in board.protocols
        }
        for (task, _, protocol), result in sorted(entry.results.items()):
            seen: set[Place] = set()
            for metric in result.metrics:
                place = (task, protocol, metric.metric, at(metric.at))
                if place not in seen:
                    self._found.setdefault(place, []).append(metric)
                seen.add(place)
        self._made: dict[Place, Estimate] = {}

    def get(self, task: str, metric: str, where: Mapping[str, str | int] | At = ()) -> Estimate | None:
        """The estimate of `protocol.metric` at these coordinates, or None if it was not measured."""
        protocol, _, name = metric.partition(".")
        place = (task, protocol, name, at(where) if isinstance(where, Mapping) else where)
        if place not in self._found:
            return None
        if place not in self._made:
            self._made[place] = combine(self._found[place], self._seeds[task, protocol])
        return self._made[place]

    def places(self, task: str, protocol: str) -> list[tuple[str, At]]:
        """Every metric and its coordinates that the protocol gave on the task, in the order of the files."""
        return [(name, where) for found, other, name, where in self._found if (found, other) == (task, protocol)]


def at(coordinates: Mapping[str, str | int]) -> At:
    """Coordinates in the form that look-ups use."""
    return tuple(sorted(coordinates.items()))


def combine(metrics: Sequence[Metric], asked: int) -> Estimate:
    """One estimate from the same metric of several seeds.

    Parameters
    ----------
    metrics : sequence of Metric
        One a seed, at least one.
    asked : int
        How many seeds were measured.
    """
    worst = max(metrics, key=lambda metric: _SEVERITY.index(metric.status))
    numbers = [metric for metric in metrics if isinstance(metric.value, float)]
    words = [metric.value for metric in metrics if isinstance(metric.value, str)]
    value: float | str | None = None
    low = high = None
    if numbers:
        value = float(np.mean([metric.value for metric in numbers]))
        low, high = (numbers[0].low, numbers[0].high) if len(numbers) == 1 else _interval(numbers)
    elif words:
        value = _words(words)
    counted = [metric.n for metric in metrics if metric.n is not None]
    return Estimate(
        value=value,
        low=low,
        high=high,
        seeds=len(numbers) or len(words),
        asked=asked,
        n=min(counted) if counted else None,
        unit=metrics[0].unit,
        direction=metrics[0].direction,
        status=worst.status,
        reason=worst.reason,
    )


def _interval(metrics: Sequence[Metric]) -> tuple[float, float]:
    values = np.array([metric.value for metric in metrics], dtype=np.float64)
    below = values - np.array([value if m.low is None else m.low for m, value in zip(metrics, values, strict=True)])
    above = np.array([value if m.high is None else m.high for m, value in zip(metrics, values, strict=True)]) - values
    chosen, noise = _resampling(len(values))
    spread = np.where(noise > 0, above[chosen], below[chosen]) / 1.959964
    drawn = (values[chosen] + noise * spread).mean(axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return float(low), float(high)


@cache
def _resampling(seeds: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Which seeds each draw takes, and how far each value moves, (draws, seeds); the same for every metric."""
    rng = np.random.default_rng(20_240_601)
    return rng.integers(0, seeds, (DRAWS, seeds)), rng.standard_normal((DRAWS, seeds))


def _words(words: Sequence[str]) -> str:
    counts = {word: words.count(word) for word in sorted(set(words), key=lambda word: (-words.count(word), word))}
    if len(counts) == 1:
        return words[0]
    return ", ".join(f"{word} ×{count}" for word, count in counts.items())
