"""What a profile over sites says in one number or word. All functions take profiles (…, S) and reduce the last axis.

S sites, ``embed`` first. A leading axis may hold bootstrap resamples.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Shape", "best_site", "early_share", "expected_site", "late_share", "shape", "tie_set"]

Float64 = NDArray[np.float64]
Int = NDArray[np.int64]
Shape = Literal["unreadable", "early", "late", "gradual"]


def tie_set(profile: Float64, within: float) -> NDArray[np.bool_]:
    """The sites within `within` of the largest value: bool (…, S). NaN is never among them."""
    largest = np.nanmax(profile, axis=-1, keepdims=True)
    # Shares of the same counts can differ in the last bit; a site exactly at the threshold is within it.
    return profile >= largest - within - 1e-12


def best_site(profile: Float64, within: float) -> Int:
    """The index of the earliest site within `within` of the largest value: (…)."""
    return tie_set(profile, within).argmax(axis=-1)


def early_share(skill: Float64) -> Float64:
    """How much of the largest skill stands at block.0 already: s_1 / max(s), NaN where max(s) ≤ 0."""
    return _over_largest(skill[..., 1], skill)


def late_share(skill: Float64) -> Float64:
    """How much of the largest skill appears at the last block: (s_last − s_{last−1}) / max(s), NaN where max(s) ≤ 0."""
    return _over_largest(skill[..., -1] - skill[..., -2], skill)


def expected_site(skill: Float64) -> Float64:
    """The mean depth at which skill first appears, 0 at ``embed`` and 1 at the last block; NaN where none does.

    Σ l·g_l / Σ g_l with g_l = max(0, s_l − max_{j<l} s_j), divided by S−1. Before ``embed`` the skill is 0.
    """
    reached = np.maximum.accumulate(np.maximum(skill, 0.0), axis=-1)
    gain = np.diff(reached, axis=-1, prepend=0.0)
    total = gain.sum(axis=-1)
    depth = skill.shape[-1] - 1
    return (gain * np.linspace(0.0, 1.0, depth + 1)).sum(axis=-1) / np.where(total > 0, total, np.nan)


def shape(skill: Float64, *, unreadable_below: float, early_from: float, late_from: float) -> Shape:
    """The word for one skill profile (S,).

    ``unreadable`` where max(s) is below `unreadable_below`; else ``early`` where the early share is at least
    `early_from`; else ``late`` where the late share is at least `late_from`; else ``gradual``.
    """
    if float(np.max(skill)) < unreadable_below:
        return "unreadable"
    if float(early_share(skill)) >= early_from:
        return "early"
    if float(late_share(skill)) >= late_from:
        return "late"
    return "gradual"


def _over_largest(part: Float64, skill: Float64) -> Float64:
    largest = skill.max(axis=-1)
    return part / np.where(largest > 0, largest, np.nan)
