"""A metric of several seeds, or of pairs of them, as one interval: what all readers of result files share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..measure.statistics import ANYWHERE, Interval, interval_over_seeds
from ..spec.results import Metric

__all__ = ["over_pairs", "over_seeds"]

Float64 = NDArray[np.float64]


def over_seeds(metrics: Sequence[Metric]) -> Interval:
    """The interval of the mean of one metric, one entry a seed, from each seed's own interval and their spread."""
    values, below, above = _columns(metrics)
    return interval_over_seeds(values, below, above, span=metrics[0].span)


def over_pairs(pairs: Sequence[tuple[Metric, Metric]]) -> Interval:
    """The interval of the mean difference, first minus second, of pairs of metrics, one pair a seed.

    The two intervals of a pair are taken as independent, which is wide where they share sequences.
    """
    first, second = (np.stack(_columns([pair[index] for pair in pairs])) for index in (0, 1))
    if len(pairs) > 1:  # the spread between seeds stands also where one of a pair has no interval of its own
        first, second = (np.nan_to_num(first), np.nan_to_num(second))
    below, above = np.hypot(first[1], second[2]), np.hypot(first[2], second[1])
    return interval_over_seeds(first[0] - second[0], below, above, span=ANYWHERE)


def _columns(metrics: Sequence[Metric]) -> tuple[Float64, Float64, Float64]:
    """Values, and how far the intervals reach below and above them."""
    rows = [(metric.number, metric.below, metric.above) for metric in metrics]
    values, below, above = np.array(rows, np.float64).T
    return values, below, above
