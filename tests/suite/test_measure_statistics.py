"""Intervals cover the truth as often as they say, and none pretends to certainty."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from layerstate.suite.measure.statistics import (
    Resamples,
    ends_over_seeds,
    interval_over_seeds,
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


FEW = (2, 3, 4, 5, 10)


def seeds_that_share_sequences(
    rng: np.random.Generator, seeds: int, between: float, own: float, shared: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values (RUNS, seeds) around 0.7, and how far their own intervals reach to each side.

    Seeds differ by `between`; the choice of sequences moves each by `own` apart from the others, and all by `shared`.
    """
    luck = shared * rng.standard_normal((20 * RUNS, 1)) + own * rng.standard_normal((20 * RUNS, seeds))
    values = 0.7 + between * rng.standard_normal((20 * RUNS, seeds)) + luck
    reach = np.full_like(values, 1.96 * np.hypot(own, shared))
    return values, reach, reach


@pytest.mark.parametrize("seeds", FEW)
@pytest.mark.parametrize(
    ("between", "own", "shared", "most"),
    [
        (1.0, 0.0, 0.0, 0.96),
        (1.0, 0.0, 0.3, 0.97),
        (0.3, 0.0, 1.0, 0.99),
        (0.0, 0.0, 1.0, 0.96),
        (1.0, 0.3, 0.0, 0.995),
        (0.3, 0.3, 0.3, 1.0),
    ],
)
def test_intervals_over_few_seeds_cover(seeds: int, between: float, own: float, shared: float, most: float) -> None:
    """A bootstrap over seeds, which cannot reach beyond them, covered in 0.50 of cases with 2 seeds, 0.76 with 3."""
    values, below, above = seeds_that_share_sequences(np.random.default_rng(seeds), seeds, between, own, shared)
    # Seeds that are all alike to the last digit don't come up in a continuous number.
    values = values + 1e-9 * np.arange(seeds)
    low, high = ends_over_seeds(values, below, above)
    assert 0.945 <= np.mean((low <= 0.7) & (high >= 0.7)) <= most


@pytest.mark.parametrize("seeds", [1, *FEW])
def test_intervals_over_seeds_and_sequences_cover(seeds: int) -> None:
    """From the counts themselves: hard and easy sequences, the same for all seeds, and seeds of different ability."""
    rng, covered, runs = np.random.default_rng(seeds), 0, 400
    for _ in range(runs):
        ability = 0.7 + (0.02 if seeds > 1 else 0.0) * rng.standard_normal((seeds, 1))
        share = rng.binomial(40, np.clip(ability + rng.uniform(-0.25, 0.25, size=100), 0, 1)) / 40
        value, draws = float(share.mean()), Resamples(100, rng, 500).means(share).mean(axis=1)
        own = percentile_interval(draws, value, units=100)
        interval = interval_over_seeds(share.mean(axis=1), *own.reach(value), span=(0.0, 1.0))
        assert interval.low is not None
        assert interval.high is not None
        covered += interval.low <= 0.7 <= interval.high
    assert 0.93 <= covered / runs <= 0.995


def test_an_interval_over_seeds_is_never_narrower_than_their_own() -> None:
    """Two seeds near each other, one of which could be anywhere: 0.91 [0.77, 1.05] was the mean's interval once."""
    values, below, above = np.array([0.77, 1.05]), np.array([0.78, 0.1]), np.array([11.7, 0.1])
    interval = interval_over_seeds(values, below, above)
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low < 0.91 - 0.44
    assert interval.high > 0.91 + 5.9


@pytest.mark.parametrize("seeds", [2, 3, 4])
@pytest.mark.parametrize(("below", "above"), [(0.0, 0.0), (0.0, 2.0), (math.nan, math.nan)])
def test_few_seeds_that_are_all_alike_give_no_interval(seeds: int, below: float, above: float) -> None:
    """A gap of 0 sites in each of two seeds says nothing of how far other seeds lie apart."""
    interval = interval_over_seeds(np.zeros(seeds), np.full(seeds, below), np.full(seeds, above))
    assert (interval.low, interval.high) == (None, None)
    assert interval.reason == f"no interval: {seeds} seeds, all alike, show no spread"


def test_seeds_that_are_alike_by_chance_keep_the_width_of_their_own_intervals() -> None:
    """Two seeds with one and the same wrong position in 40,000."""
    interval = interval_over_seeds(np.full(2, 0.9999), np.full(2, 2e-4), np.full(2, 1e-4), span=(0.0, 1.0))
    assert (interval.low, interval.high) == (pytest.approx(0.9997), 1.0)


def test_five_seeds_that_are_all_alike_give_one_that_holds_the_median_often_enough() -> None:
    interval = interval_over_seeds(np.zeros(5), np.zeros(5), np.zeros(5))
    assert (interval.low, interval.high) == (0.0, 0.0)
    skewed = np.random.default_rng(0).exponential(size=(20_000, 5))
    assert np.mean((skewed.min(axis=1) <= math.log(2)) & (skewed.max(axis=1) >= math.log(2))) >= 0.93


def test_an_interval_stays_in_the_range_that_a_value_has() -> None:
    none = np.full(2, math.nan)
    inside = interval_over_seeds(np.array([0.9, 0.98]), none, none, span=(0.0, 1.0))
    assert inside.high == 1.0
    assert inside.low is not None
    assert 0.4 < inside.low < 0.5
    perfect = interval_over_seeds(np.ones(2), none, none, span=(0.0, 1.0))
    assert (perfect.low, perfect.high) == (1.0, 1.0)


def test_one_seed_keeps_its_own_interval_or_has_none() -> None:
    one = interval_over_seeds(np.array([0.5]), np.array([0.1]), np.array([0.2]))
    assert (one.low, one.high) == (pytest.approx(0.4), pytest.approx(0.7))
    none = np.array([math.nan])
    assert interval_over_seeds(np.array([0.5]), none, none).reason == "no interval: one seed"
    assert interval_over_seeds(none, none, none).reason == "no value"


def test_the_first_sequences_alone_are_averaged_over_those_in_the_resample() -> None:
    values = np.random.default_rng(0).random(60)
    resamples = Resamples(60, np.random.default_rng(1), draws=50)
    masked = np.stack([values * (np.arange(60) < 20), np.arange(60) < 20])
    sums = resamples.means(masked)
    np.testing.assert_allclose(resamples.means(values[:20]), sums[:, 0] / sums[:, 1], rtol=1e-5)


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
