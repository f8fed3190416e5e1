"""Intervals over seeds and sequences cost little beside what they describe."""

from __future__ import annotations

from typing import Any

import numpy as np
from layerstate.suite.measure.statistics import hierarchical_means, level_over_seeds, percentile_interval


def test_two_thousand_draws_over_five_seeds_of_a_thousand_sequences_take_under_a_second(benchmark: Any) -> None:
    rng = np.random.default_rng(0)
    by_seed = [rng.random(1000) for _ in range(5)]

    def interval() -> float | None:
        draws = hierarchical_means(by_seed, np.random.default_rng(1), shared=True, draws=2000).mean(axis=1)
        return percentile_interval(draws, 0.5, units=5, level=level_over_seeds(5)).low

    assert benchmark.pedantic(interval, rounds=5, warmup_rounds=1) is not None
    assert benchmark.stats.stats.min < 1.0
