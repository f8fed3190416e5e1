"""Summaries against profiles made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from layerstate.suite.measure.summaries import best_site, early_share, expected_site, late_share, shape, tie_set

THRESHOLDS = {"unreadable_below": 0.05, "early_from": 0.8, "late_from": 0.5}


def profile(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


@pytest.mark.parametrize(
    ("skill", "word"),
    [
        (profile(0.0, 0.9, 1.0, 1.0), "early"),
        (profile(0.0, 0.1, 0.2, 1.0), "late"),
        (profile(0.0, 0.3, 0.6, 1.0), "gradual"),
        (profile(0.0, 0.02, 0.04, 0.03), "unreadable"),
        (profile(-0.2, -0.1, -0.1, -0.3), "unreadable"),
        (profile(0.0, 0.8, 0.8, 1.0), "early"),
        (profile(0.0, 0.0, 0.5, 1.0), "late"),
        (profile(0.0, 1.0), "early"),
    ],
)
def test_shapes(skill: np.ndarray, word: str) -> None:
    assert shape(skill, **THRESHOLDS) == word


def test_thresholds_of_shapes_are_parameters() -> None:
    assert shape(profile(0.0, 0.3, 0.6, 1.0), unreadable_below=0.05, early_from=0.3, late_from=0.5) == "early"
    assert shape(profile(0.0, 0.3, 0.6, 1.0), unreadable_below=1.01, early_from=0.3, late_from=0.5) == "unreadable"


def test_the_best_site_is_the_earliest_of_the_tied_ones_not_the_largest() -> None:
    accuracy = profile(0.5, 0.994, 0.9955, 1.0, 0.9999)
    assert tie_set(accuracy, 0.005).tolist() == [False, False, True, True, True]
    assert best_site(accuracy, 0.005) == 2
    assert best_site(accuracy, 0.0) == 3


def test_a_site_exactly_at_the_threshold_is_tied() -> None:
    assert best_site(profile(0.5, 0.995, 1.0), 0.005) == 1


def test_a_site_without_a_number_is_never_best() -> None:
    assert best_site(profile(math.nan, 0.3, 0.2), 0.005) == 1


def test_shares() -> None:
    skill = profile(0.0, 0.2, 0.5, 0.8)
    assert early_share(skill) == pytest.approx(0.25)
    assert late_share(skill) == pytest.approx(0.375)
    falling = profile(0.0, 0.8, 0.6, 0.4)
    assert early_share(falling) == pytest.approx(1.0)
    assert late_share(falling) == pytest.approx(-0.25)


def test_the_expected_site_is_where_skill_first_rises() -> None:
    assert expected_site(profile(0.0, 0.0, 1.0, 1.0, 1.0)) == pytest.approx(0.5)
    assert expected_site(profile(1.0, 1.0, 1.0)) == pytest.approx(0.0)
    assert expected_site(profile(0.0, 0.5, 0.3, 1.0)) == pytest.approx((0.5 * 1 + 0.5 * 3) / 3)
    assert expected_site(profile(-0.3, 0.5, 0.4, 0.4)) == pytest.approx(1 / 3)


def test_a_share_of_nothing_is_not_a_number() -> None:
    nothing = profile(-0.1, 0.0, -0.2)
    assert math.isnan(float(early_share(nothing)))
    assert math.isnan(float(late_share(nothing)))
    assert math.isnan(float(expected_site(nothing)))


def test_many_profiles_at_once_give_what_each_gives_alone() -> None:
    skills = np.random.default_rng(0).uniform(-0.1, 1.0, size=(50, 5))
    for summary in (early_share, late_share, expected_site, lambda s: best_site(s, 0.005)):
        np.testing.assert_allclose(summary(skills), [summary(one) for one in skills])
