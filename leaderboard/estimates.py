"""One number from several seeds, with an interval that covers seeds and sequences as far as the files allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..suite.measure.statistics import DRAWS, level_over_seeds
from ..suite.spec.results import Metric, Status
from .boards import Entry

__all__ = ["At", "Estimate", "Estimates", "at", "combine"]

At = tuple[tuple[str, str | int], ...]
"""Coordinates, sorted by name."""
Interval = tuple[float | None, float | None]

_SEVERITY: tuple[Status, ...] = ("ok", "below_gate", "not_converged", "undefined", "failed")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric of one model on one task, over its seeds.

    Attributes
    ----------
    value : float, str or None
        Mean over the seeds that have a number; a word, or the words with their counts; None where there is none.
    low, high : float or None
        95 % interval. One seed: the file's own, over sequences. Several: seeds are resampled, and each seed's value
        moves within its own interval.
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

    def __init__(self, entry: Entry) -> None:
        self._found: dict[tuple[str, str], dict[tuple[str, At], list[Metric]]] = {}
        self._seeds: dict[tuple[str, str], int] = {}
        for task, seed, protocol in sorted(entry.results):
            metrics = self._found.setdefault((task, protocol), {})
            self._seeds[task, protocol] = self._seeds.get((task, protocol), 0) + 1
            once = {(metric.metric, at(metric.at)): metric for metric in entry.results[task, seed, protocol].metrics}
            for place, metric in once.items():
                metrics.setdefault(place, []).append(metric)
        self._made: dict[tuple[str, str], dict[tuple[str, At], Estimate]] = {}

    def get(self, task: str, metric: str, where: Mapping[str, str | int] | At = ()) -> Estimate | None:
        """The estimate of `protocol.metric` at these coordinates, or None if it was not measured."""
        protocol, _, name = metric.partition(".")
        return self._of(task, protocol).get((name, at(where) if isinstance(where, Mapping) else where))

    def seeds(self, task: str, protocol: str) -> int:
        """How many seeds the protocol measured on the task."""
        return self._seeds.get((task, protocol), 0)

    def places(self, task: str, protocol: str) -> list[tuple[str, At]]:
        """Every metric and its coordinates that the protocol gave on the task, in the order of the files."""
        return list(self._found.get((task, protocol), ()))

    def _of(self, task: str, protocol: str) -> dict[tuple[str, At], Estimate]:
        if (task, protocol) not in self._made:
            found = self._found.get((task, protocol), {})
            made = combine(list(found.values()), self.seeds(task, protocol))
            self._made[task, protocol] = dict(zip(found, made, strict=True))
        return self._made[task, protocol]


def at(coordinates: Mapping[str, str | int]) -> At:
    """Coordinates in the form that look-ups use."""
    return tuple(sorted(coordinates.items()))


def combine(groups: Sequence[Sequence[Metric]], asked: int) -> list[Estimate]:
    """One estimate from each group: the same metric of several seeds.

    Parameters
    ----------
    groups : sequence of sequence of Metric
        Each with one metric a seed, at least one.
    asked : int
        How many seeds were measured.
    """
    numbers = [[metric for metric in group if isinstance(metric.value, float)] for group in groups]
    intervals = _intervals(numbers)
    return [
        _estimate(group, found, interval, asked)
        for group, found, interval in zip(groups, numbers, intervals, strict=True)
    ]


def _estimate(group: Sequence[Metric], numbers: Sequence[Metric], interval: Interval, asked: int) -> Estimate:
    worst = max(group, key=lambda metric: _SEVERITY.index(metric.status))
    words = [metric.value for metric in group if isinstance(metric.value, str)]
    counted = [metric.n for metric in group if metric.n is not None]
    value: float | str | None = None
    if numbers:
        value = sum(_value(metric) for metric in numbers) / len(numbers)
    elif words:
        value = _words(words)
    return Estimate(
        value=value,
        low=interval[0],
        high=interval[1],
        seeds=len(numbers) or len(words),
        asked=asked,
        n=min(counted) if counted else None,
        unit=group[0].unit,
        direction=group[0].direction,
        status=worst.status,
        reason=worst.reason,
    )


def _intervals(groups: Sequence[Sequence[Metric]]) -> list[Interval]:
    """The interval of the mean of each group: a single seed's own, or resampled, all groups of a size at once."""
    found: list[Interval] = [(group[0].low, group[0].high) if len(group) == 1 else (None, None) for group in groups]
    for seeds in sorted({len(group) for group in groups} - {0, 1}):
        members = [index for index, group in enumerate(groups) if len(group) == seeds]
        values, below, above = (
            np.array([[end(metric) for metric in groups[index]] for index in members])
            for end in (_value, _below, _above)
        )
        share, up, down = _resampling(seeds)
        drawn = values @ share + above @ up - below @ down
        outside = round((1 - level_over_seeds(seeds)) / 2 * DRAWS)
        ends = (outside, DRAWS - 1 - outside)
        for index, row in zip(members, np.partition(drawn, ends, axis=1)[:, ends].tolist(), strict=True):
            found[index] = (row[0], row[1])
    return found


def _value(metric: Metric) -> float:
    return metric.value if isinstance(metric.value, float) else 0.0


def _below(metric: Metric) -> float:
    """The standard error that the lower half of the file's interval stands for."""
    return 0.0 if metric.low is None else (_value(metric) - metric.low) / 1.959964


def _above(metric: Metric) -> float:
    """The standard error that the upper half of the file's interval stands for."""
    return 0.0 if metric.high is None else (metric.high - _value(metric)) / 1.959964


@cache
def _resampling(seeds: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """What each seed gives to each draw, (seeds, draws): its share, and its moves up and down in standard errors."""
    rng = np.random.default_rng(20_240_601)
    chosen = rng.integers(seeds, size=(DRAWS, seeds))
    noise = rng.standard_normal((DRAWS, seeds))
    is_seed = (chosen[:, :, None] == np.arange(seeds)).astype(np.float64)
    up = (is_seed * np.maximum(noise, 0)[:, :, None]).mean(axis=1)
    down = (is_seed * np.maximum(-noise, 0)[:, :, None]).mean(axis=1)
    return is_seed.mean(axis=1).T, up.T, down.T


def _words(words: Sequence[str]) -> str:
    counts = {word: words.count(word) for word in sorted(set(words), key=lambda word: (-words.count(word), word))}
    if len(counts) == 1:
        return words[0]
    return ", ".join(f"{word} ×{count}" for word, count in counts.items())
