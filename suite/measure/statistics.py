"""Intervals and tests that respect what is independent: whole sequences, and seeds above them.

Positions of one sequence are correlated, so intervals come from resampling whole sequences (Efron's percentile
bootstrap). Seeds are few, and no resampling of few values reaches beyond them: above the sequences stands a t interval
of the seeds' values (`ends_over_seeds`), for every table, rank and verdict alike. Everything here is a pure function of
arrays.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ANYWHERE",
    "Interval",
    "Resamples",
    "SignFlip",
    "ends_over_seeds",
    "interval_over_seeds",
    "percentile_interval",
    "reach",
    "resampled_weights",
    "sign_flip_test",
    "why_no_interval",
]

Float64 = NDArray[np.float64]

DRAWS = 2000
ANYWHERE = (-math.inf, math.inf)
FEWEST_ALIKE = 5
_EXACT_PAIRS = 20


@dataclass(frozen=True)
class Interval:
    """The ends of a 95 % interval, or None for both with the reason why there is none."""

    low: float | None
    high: float | None
    reason: str | None = None

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval and 0 lies outside it."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def reach(self, value: float) -> tuple[Float64, Float64]:
        """How far it lies below and above the value, (1,) and (1,); NaN where there is no interval."""
        if self.low is None or self.high is None:
            return np.full(1, np.nan), np.full(1, np.nan)
        return np.array([max(0.0, value - self.low)]), np.array([max(0.0, self.high - value)])

    @property
    def above_zero(self) -> bool:
        """Whether there is an interval and all of it lies above 0."""
        return self.low is not None and self.low > 0


class Resamples:
    """Bootstrap resamples of n sequences, drawn once and used for every number on them, so that all are paired.

    Parameters
    ----------
    n : int
        Number of sequences.
    rng : numpy Generator
        Source of the draws.
    draws : int
        Number of resamples.
    """

    def __init__(self, n: int, rng: np.random.Generator, draws: int = DRAWS) -> None:
        self.n = n
        self.draws = draws
        self.weights = _multiplicities(n, draws, rng)

    def means(self, values: NDArray[Any]) -> Float64:
        """Mean over the sequences in every resample: values (…, n) to (draws, …).

        Values (…, m) of the first m sequences alone are averaged over those of them that are in the resample; NaN where
        none is.
        """
        m = values.shape[-1]
        weights = self.weights[:, :m]
        total = weights.sum(axis=1, dtype=np.float64)[:, None]
        sums = (weights @ np.asarray(values, np.float32).reshape(-1, m).T).astype(np.float64)
        return (sums / np.where(total > 0, total, np.nan)).reshape(self.draws, *values.shape[:-1])


def percentile_interval(
    draws: Float64, value: float, *, units: int, exact: Sequence[float] = (0.0, 1.0), level: float = 0.95
) -> Interval:
    """The percentile interval of bootstrap draws (draws,) around `value`.

    Parameters
    ----------
    draws : float array (draws,)
        The statistic in every resample; NaN where it is not defined there.
    value : float
        The statistic on the data.
    units : int
        How many independent units were resampled.
    exact : sequence of float
        Values at which an interval of no width is right: nothing varied because nothing could. Anywhere else an
        interval of no width would claim certainty where there is only no information, and none is given.
    level : float
        Its nominal coverage.
    """
    if not math.isfinite(value):
        return Interval(None, None, "no value")
    if units < 2:
        return Interval(None, None, "no interval: one sequence")
    finite = draws[np.isfinite(draws)]
    if len(finite) < 0.5 * len(draws):
        return Interval(None, None, "no interval: undefined in most resamples")
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    if high - low <= 0 and not any(math.isclose(value, bound, abs_tol=1e-12) for bound in exact):
        return Interval(None, None, "no interval: all sequences alike")
    return Interval(float(low), float(high))


def resampled_weights(units: int, rng: np.random.Generator, draws: int = DRAWS) -> Float64:
    """Weights (draws, units) of a mean over few units in every resample, which sum to 1.

    They lie about 1 / units as far out as a 95 % t interval of so few units needs: plain percentiles of n units are too
    narrow by √((n−1)/n), and use the normal where t belongs. Source: Hesterberg 2015, The American Statistician 69 (4),
    section 3.3.
    """
    weights = Resamples(units, rng, draws).weights.astype(np.float64) / units
    if units < 2:
        return weights
    normal = float(_special().ndtri(0.975))
    return 1 / units + math.sqrt(units / (units - 1)) * _t_quantile(units) / normal * (weights - 1 / units)


def _t_quantile(units: int) -> float:
    """How many standard errors the 95 % interval of a mean of so few units reaches to each side."""
    return float(_special().stdtrit(units - 1, 0.975))


def _special() -> Any:
    # Imported where it is used, and without types: SciPy has none.
    return importlib.import_module("scipy.special")


def reach(draws: Float64, values: Float64 | float) -> tuple[Float64, Float64]:
    """How far the 95 % percentiles of draws (…, draws) lie below and above the values (…), for `ends_over_seeds`."""
    low, high = np.quantile(draws, [0.025, 0.975], axis=-1)
    return np.maximum(values - low, 0.0)[..., None], np.maximum(high - values, 0.0)[..., None]


def ends_over_seeds(
    values: Float64, below: Float64, above: Float64, *, span: tuple[float, float] | Float64 = ANYWHERE
) -> tuple[Float64, Float64]:
    """The ends (…) and (…) of 95 % intervals of means over seeds; NaN where no honest interval can be given.

    To each side the interval reaches √(t²·s²/n + w²). The first part is the t interval of the n seeds' values, with
    n − 1 degrees of freedom; it covers what training anew changes. The second part, w, is the mean's own interval over
    sequences, with the seeds held fixed: all seeds are measured on the same sequences, so the luck of these is common
    to them, and no spread between seeds shows it. Where only the single seeds' intervals are known, w is the mean of
    their reaches, as if all luck were common: too wide rather than too narrow. Of one seed, w alone is left.

    Fewer than five seeds that are all alike, in a layer's number, say, and whose own intervals do not reach to both
    sides, show no spread to judge others by: no interval. Five or more have one: the range of n values holds their
    distribution's median in 1 − 2^(1−n) of cases, which is 0.94 for five. A value at an end of its natural range has
    one as well: beyond it, there is nothing.

    Parameters
    ----------
    values : float array (…, n)
        One a seed.
    below, above : float arrays (…, n), or (…, 1) for their mean
        How far the 95 % intervals over sequences reach; NaN where there is none.
    span : pair of floats, or float array (…, 2)
        The range outside of which there can be no value.
    """
    seeds = values.shape[-1]
    value = values.mean(axis=-1)
    least, most = np.moveaxis(np.broadcast_to(np.asarray(span, np.float64), (*value.shape, 2)), -1, 0)
    within = [_mean_of_known(each) for each in (below, above)]
    if seeds == 1:
        low, high = value - within[0], value + within[1]
    else:
        between = _t_quantile(seeds) * values.std(axis=-1, ddof=1) / math.sqrt(seeds)
        within = [np.nan_to_num(each) for each in within]
        low, high = value - np.hypot(between, within[0]), value + np.hypot(between, within[1])
        if seeds < FEWEST_ALIKE:
            alike = np.ptp(values, axis=-1) <= 1e-12 * np.maximum(1.0, np.abs(value))
            certain = (within[0] <= 0) | (within[1] <= 0)
            shut = alike & certain & (np.abs(value - least) > 1e-12) & (np.abs(value - most) > 1e-12)
            low, high = np.where(shut, np.nan, low), np.where(shut, np.nan, high)
    return np.maximum(low, np.minimum(least, value)), np.minimum(high, np.maximum(most, value))


def interval_over_seeds(
    values: Float64, below: Float64, above: Float64, *, span: tuple[float, float] = ANYWHERE
) -> Interval:
    """One of the intervals of `ends_over_seeds`, values (n,), or the reason why there is none."""
    if not np.isfinite(values).all():
        return Interval(None, None, "no value")
    low, high = (float(end) for end in ends_over_seeds(values, below, above, span=span))
    if math.isnan(low) or math.isnan(high):
        return Interval(None, None, why_no_interval(len(values)))
    return Interval(low, high)


def why_no_interval(seeds: int) -> str:
    """Why so many seeds gave no interval."""
    if seeds == 1:
        return "no interval: one seed"
    return f"no interval: {seeds} seeds, all alike, show no spread"


def _mean_of_known(reaches: Float64) -> Float64:
    known = np.isfinite(reaches)
    count = known.sum(axis=-1)
    return np.where(known, reaches, 0.0).sum(axis=-1) / np.where(count > 0, count, np.nan)


@dataclass(frozen=True)
class SignFlip:
    """A paired sign-flip test.

    Attributes
    ----------
    p : float
        Two-sided: the share of sign patterns whose mean is at least as far from 0 as the observed one.
    smallest : float
        The smallest p that this many pairs can give, 2^(1−n): above 0.05 no result can reach significance.
    """

    p: float
    smallest: float


def sign_flip_test(differences: Float64) -> SignFlip:
    """The exact paired sign-flip permutation test of a mean difference of 0.

    Parameters
    ----------
    differences : float array (n,)
        One paired difference a seed, 1 ≤ n ≤ 20.
    """
    n = len(differences)
    if not 1 <= n <= _EXACT_PAIRS:
        raise ValueError(f"the exact test takes 1 to {_EXACT_PAIRS} pairs, not {n}")
    sums = np.zeros(1)
    for difference in np.asarray(differences, np.float64):
        sums = np.concatenate([sums + difference, sums - difference])
    observed = abs(float(np.sum(differences)))
    # Sums of the same numbers in another order differ by rounding; they are ties.
    slack = 1e-12 * max(1.0, float(np.abs(differences).sum()))
    return SignFlip(float(np.mean(np.abs(sums) >= observed - slack)), 2.0 ** (1 - n))


def _multiplicities(n: int, draws: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """How often each of n units is in each resample of n: (draws, n)."""
    chosen = rng.integers(n, size=(draws, n))
    chosen += np.arange(draws)[:, None] * n
    return np.bincount(chosen.ravel(), minlength=draws * n).reshape(draws, n).astype(np.float32)
