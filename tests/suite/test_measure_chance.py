"""Chance is the best guess from the position alone, and skill is measured from there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layerstate.suite.measure.chance import majority_by_position, skill
from layerstate.suite.measure.scoring import predictions
from layerstate.tasks import draw, load_task


def chance_of(family: str, params: dict[str, object], target: str, length: int) -> tuple[float, float]:
    """Position-only and global majority accuracy on fresh sequences."""
    task = load_task(family, params, target)
    seen, fresh = (draw(task, split, 1000, length, seed=0).states[target] for split in ("probe_train", "evaluate"))
    by_position = majority_by_position(seen, task.classes[target])
    overall = np.bincount(seen.ravel()).argmax()
    return float((by_position == fresh).mean()), float((overall == fresh).mean())


def test_chance_on_dyck_is_twice_the_global_majority_rate() -> None:
    by_position, overall = chance_of("dyck", {"bracket_types": 2, "max_depth": 10}, "depth", 40)
    assert by_position == pytest.approx(0.4, abs=0.04)
    assert overall < 0.25


def test_chance_on_parity_is_one_half() -> None:
    by_position, _ = chance_of("parity", {}, "parity", 40)
    assert by_position == pytest.approx(0.5, abs=0.02)


@given(seed=st.integers(0, 2**32 - 1), classes=st.integers(2, 6))
@settings(max_examples=30, deadline=None)
def test_no_guess_by_position_is_better_on_the_data_it_was_made_from(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=(50, 7))
    best = (majority_by_position(y, classes) == y).mean()
    for _ in range(20):
        assert (rng.integers(classes, size=7) == y).mean() <= best + 1e-12


def test_skill_is_0_at_chance_1_at_the_top_and_nothing_where_chance_is_1() -> None:
    values = skill(np.array([0.4, 1.0, 0.7, 0.1, 1.0]), np.array([0.4, 0.4, 0.4, 0.4, 1.0]))
    np.testing.assert_allclose(values[:4], [0.0, 1.0, 0.5, -0.5])
    assert math.isnan(values[4])


def test_a_logit_that_is_not_finite_is_never_right() -> None:
    logits = np.array([[[0.0, 1.0], [np.nan, 0.0], [0.0, np.inf]]], np.float32)
    assert predictions(logits).tolist() == [[1, -1, -1]]
