"""Intervals cover the truth as often as they say, and none pretends to certainty."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from layerstate.suite.measure.statistics import (
    Resamples,
    expanded_level,
    hierarchical_means,
    percentile_interval,
    sign_flip_test,
)

RUNS = 1000


def coverage(draws: np.ndarray, values: np.ndarray, truth: float, units: int, level: float = 0.95) -> float:
    """The share of runs whose interval holds the truth; draws (draws, runs), values (runs,)."""
    intervals = [
        percentile_interval(draws[:, run], float(values[run]), units=units, level=level) for run in range(len(values))
    ]
    ends = [(each.low, each.high) for each in intervals]
    return float(np.mean([low is not None and high is not None and low <= truth <= high for low, high in ends]))


def correlated_counts(rng: np.random.Generator, size: tuple[int, ...], positions: int, mean: float) -> np.ndarray:
    """Right positions a sequence: a sequence has an ability of its own, so its positions are not independent."""
    ability = rng.beta(4 * mean, 4 * (1 - mean), size=size)
    return rng.binomial(positions, ability)


def test_intervals_over_sequences_cover() -> None:
    rng = np.random.default_rng(0)
    shares = correlated_counts(rng, (RUNS, 200), 40, 0.8) / 40
    draws = Resamples(200, rng).means(shares)
    assert 0.93 <= coverage(draws, shares.mean(axis=1), 0.8, 200) <= 0.97


def test_intervals_over_positions_would_not_cover() -> None:
    """The fault that resampling whole sequences avoids: positions taken for independent."""
    rng = np.random.default_rng(0)
    counts = correlated_counts(rng, (RUNS, 200), 40, 0.8)
    share = counts.mean(axis=1) / 40
    half = 1.96 * np.sqrt(share * (1 - share) / (200 * 40))
    assert np.mean(np.abs(share - 0.8) <= half) < 0.7


def test_intervals_of_paired_differences_cover_and_are_narrower_than_unpaired_ones() -> None:
    rng = np.random.default_rng(1)
    ability = rng.beta(3, 1, size=(RUNS, 200))
    first, second = rng.binomial(40, ability) / 40, rng.binomial(40, 0.95 * ability) / 40
    resamples, others = Resamples(200, rng), Resamples(200, rng)
    paired = resamples.means(first) - resamples.means(second)
    assert 0.93 <= coverage(paired, (first - second).mean(axis=1), 0.05 * 0.75, 200) <= 0.97
    unpaired = resamples.means(first) - others.means(second)
    assert np.std(paired, axis=0).mean() < 0.5 * np.std(unpaired, axis=0).mean()


def seeds_and_sequences(rng: np.random.Generator, seeds: int, n: int, spread: float) -> list[np.ndarray]:
    """(n, RUNS) a seed: seeds differ by `spread` around 0.7, sequences by far more within a seed."""
    means = 0.7 + spread * rng.standard_normal((seeds, 1, RUNS))
    return list(means + 0.2 * rng.standard_normal((seeds, n, RUNS)))


def test_intervals_over_seeds_and_sequences_cover() -> None:
    rng = np.random.default_rng(2)
    values = seeds_and_sequences(rng, seeds=30, n=40, spread=0.08)
    draws = hierarchical_means(values, rng, shared=False, draws=500).mean(axis=1)
    means = np.mean([value.mean(axis=0) for value in values], axis=0)
    assert 0.93 <= coverage(draws, means, 0.7, 30) <= 0.97


def test_intervals_over_seeds_that_share_their_sequences_cover_only_if_told() -> None:
    """The choice of sequences moves all seeds at once here; resampled apart, its part of the spread would be lost."""
    rng = np.random.default_rng(3)
    difficulty = 0.3 * rng.standard_normal((40, RUNS))
    values = [value + difficulty for value in seeds_and_sequences(rng, seeds=20, n=40, spread=0.08)]
    means = np.mean([value.mean(axis=0) for value in values], axis=0)
    told, untold = (
        coverage(hierarchical_means(values, rng, shared=shared, draws=500).mean(axis=1), means, 0.7, 20)
        for shared in (True, False)
    )
    assert 0.93 <= told <= 0.97
    assert untold < 0.75


def test_five_seeds_are_few_and_the_expanded_level_says_how_few() -> None:
    """Percentile intervals of five seeds cover in about 84 % of runs where seeds differ; expanded, in about 93 %."""
    rng = np.random.default_rng(4)
    values = seeds_and_sequences(rng, seeds=5, n=200, spread=0.1)
    draws = hierarchical_means(values, rng, shared=False, draws=2000).mean(axis=1)
    means = np.mean([value.mean(axis=0) for value in values], axis=0)
    assert 0.78 <= coverage(draws, means, 0.7, 5) <= 0.90
    assert 0.90 <= coverage(draws, means, 0.7, 5, level=expanded_level(5)) <= 0.97


def test_the_first_sequences_alone_are_averaged_over_those_in_the_resample() -> None:
    values = np.random.default_rng(0).random(60)
    resamples = Resamples(60, np.random.default_rng(1), draws=50)
    masked = np.stack([values * (np.arange(60) < 20), np.arange(60) < 20])
    sums = resamples.means(masked)
    np.testing.assert_allclose(resamples.means(values[:20]), sums[:, 0] / sums[:, 1], rtol=1e-5)


def test_hierarchical_draws_keep_columns_paired_and_seeds_apart() -> None:
    values = [np.stack([np.arange(10), 2 * np.arange(10)], axis=1) + 100 * seed for seed in range(3)]
    for shared in (True, False):
        draws = hierarchical_means(values, np.random.default_rng(0), shared=shared, draws=200)
        assert draws.shape == (200, 3, 2)
        seed = np.floor(draws[..., 0] / 100)
        np.testing.assert_allclose(2 * (draws[..., 0] - 100 * seed), draws[..., 1] - 100 * seed, atol=1e-3)
        assert set(seed.ravel()) == {0.0, 1.0, 2.0}


def test_one_seed_gives_the_interval_over_its_sequences() -> None:
    values = np.random.default_rng(0).random(500)
    hierarchical = hierarchical_means([values], np.random.default_rng(1), shared=True)[:, 0]
    plain = Resamples(500, np.random.default_rng(2)).means(values)
    np.testing.assert_allclose(
        np.quantile(hierarchical, [0.025, 0.975]), np.quantile(plain, [0.025, 0.975]), atol=0.003
    )


def test_seeds_with_other_numbers_of_sequences_are_refused() -> None:
    with pytest.raises(ValueError, match="same number of sequences"):
        hierarchical_means([np.zeros(3), np.zeros(4)], np.random.default_rng(0), shared=False)


def test_a_share_between_0_and_1_never_has_an_interval_of_no_width() -> None:
    alike = Resamples(50, np.random.default_rng(0)).means(np.full(50, 0.5))
    interval = percentile_interval(alike, 0.5, units=50)
    assert (interval.low, interval.high) == (None, None)
    assert interval.reason == "no interval: all sequences alike"
    assert not interval.above_zero


def test_one_sequence_gives_no_interval() -> None:
    one = Resamples(1, np.random.default_rng(0)).means(np.array([0.3]))
    assert percentile_interval(one, 0.3, units=1).reason == "no interval: one sequence"


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_wrong_and_all_right_may_have_one(value: float) -> None:
    draws = Resamples(50, np.random.default_rng(0)).means(np.full(50, value))
    interval = percentile_interval(draws, value, units=50)
    assert (interval.low, interval.high) == (value, value)


def test_a_statistic_that_is_undefined_in_most_resamples_has_no_interval() -> None:
    draws = np.where(np.arange(100) < 60, np.nan, 0.5)
    assert percentile_interval(draws, 0.5, units=9).low is None
    assert percentile_interval(draws, float("nan"), units=9).low is None


def test_sign_flips_are_counted_exactly() -> None:
    differences = np.random.default_rng(0).normal(0.4, 1.0, size=6)
    observed = abs(differences.sum())
    flips = np.array(list(itertools.product([-1, 1], repeat=6)))
    assert sign_flip_test(differences).p == np.mean(np.abs(flips @ differences) >= observed - 1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_n_pairs_cannot_give_a_smaller_p(n: int) -> None:
    found = sign_flip_test(np.full(n, 0.1))
    assert found.p == found.smallest == 2.0 ** (1 - n)


def test_sign_flips_of_no_difference_are_all_as_far() -> None:
    assert sign_flip_test(np.array([0.1, -0.1, 0.0])).p == 1.0
    with pytest.raises(ValueError, match="1 to 20 pairs"):
        sign_flip_test(np.zeros(21))
