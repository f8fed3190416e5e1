"""One number from several seeds, with an interval that covers seeds and sequences as far as the files allow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..suite.measure.statistics import ends_over_seeds, why_no_interval
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
        95 % interval. One seed: the file's own, over sequences. Several: over seeds and sequences, see
        `ends_over_seeds`; None where so few seeds are all alike.
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

    @property
    def open(self) -> str | None:
        """Why several seeds with a number have no interval; None where they have one."""
        if self.seeds < 2 or self.number is None or self.low is not None:
            return None
        return why_no_interval(self.seeds)


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
        value = sum(metric.number for metric in numbers) / len(numbers)
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
    """The interval of the mean of each group: a single seed's own, or over seeds, all groups of a size at once."""
    found: list[Interval] = [(group[0].low, group[0].high) if len(group) == 1 else (None, None) for group in groups]
    for seeds in sorted({len(group) for group in groups} - {0, 1}):
        members = [index for index, group in enumerate(groups) if len(group) == seeds]
        parts = np.array([[(m.number, m.below, m.above) for m in groups[index]] for index in members])
        values, below, above = np.moveaxis(parts, -1, 0)
        lows, highs = ends_over_seeds(values, below, above, span=np.array([groups[index][0].span for index in members]))
        for index, low, high in zip(members, lows.tolist(), highs.tolist(), strict=True):
            found[index] = (None, None) if math.isnan(low) or math.isnan(high) else (low, high)
    return found


def _words(words: Sequence[str]) -> str:
    counts = {word: words.count(word) for word in sorted(set(words), key=lambda word: (-words.count(word), word))}
    if len(counts) == 1:
        return words[0]
    return ", ".join(f"{word} ×{count}" for word, count in counts.items())
