"""Intervals over seeds and sequences cost little beside what they describe."""

from __future__ import annotations

from typing import Any

import numpy as np
from layerstate.suite.measure.statistics import Resamples, interval_over_seeds, percentile_interval


def test_two_thousand_draws_over_five_seeds_of_a_thousand_sequences_take_under_a_second(benchmark: Any) -> None:
    rng = np.random.default_rng(0)
    by_seed = rng.random((5, 1000))

    def interval() -> float | None:
        draws = Resamples(1000, np.random.default_rng(1), 2000).means(by_seed).mean(axis=1)
        own = percentile_interval(draws, 0.5, units=1000)
        return interval_over_seeds(by_seed.mean(axis=1), *own.reach(0.5)).low

    assert benchmark.pedantic(interval, rounds=5, warmup_rounds=1) is not None
    assert benchmark.stats.stats.min < 1.0
