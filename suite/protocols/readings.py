"""Making readings: a number with its interval, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..measure.statistics import percentile_interval
from ..spec.results import Coordinate, Status
from .base import Reading

__all__ = ["estimate", "undefined", "word"]


def estimate(
    metric: str,
    value: float,
    draws: NDArray[np.float64],
    *,
    at: Mapping[str, Coordinate],
    n: int,
    exact: Sequence[float] = (0.0, 1.0),
    converged: bool = True,
    missing: str = "undefined",
) -> Reading:
    """A number with the percentile interval of its bootstrap draws.

    Parameters
    ----------
    metric, at :
        Its name and coordinates.
    value : float
        NaN where it is not defined; the reading then carries `missing` as its reason.
    draws : float array (draws,)
        The number in every resample.
    n : int
        How many sequences were resampled.
    exact : sequence of float
        Values at which an interval of no width is right (see `percentile_interval`).
    converged : bool
        Whether every probe behind it converged.
    missing : str
        The reason if it is not defined.
    """
    if not math.isfinite(value):
        return undefined(metric, missing, at=at)
    interval = percentile_interval(draws, value, units=n, exact=exact)
    status: Status = "ok" if converged else "not_converged"
    reason = interval.reason if converged else "a probe stopped before its gradient was within the tolerance"
    # Draws of a ratio or of an arg-max can all lie to one side of it; what was found is in the interval all the same.
    low = None if interval.low is None else min(interval.low, float(value))
    high = None if interval.high is None else max(interval.high, float(value))
    return Reading(metric, float(value), dict(at), low, high, n, status, reason)


def word(
    metric: str, value: str, *, at: Mapping[str, Coordinate], n: int | None = None, converged: bool = True
) -> Reading:
    """A word: the name of a site, a set of them, or a shape."""
    reason = None if converged else "a probe stopped before its gradient was within the tolerance"
    return Reading(metric, value, dict(at), n=n, status="ok" if converged else "not_converged", reason=reason)


def undefined(metric: str, reason: str, *, at: Mapping[str, Coordinate]) -> Reading:
    """No number, and why."""
    return Reading(metric, None, dict(at), status="undefined", reason=reason)
