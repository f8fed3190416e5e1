"""How many directions have to be taken, and which, is what was planted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from layerstate.suite.protocols import Outcome, load_protocol

from . import networks, subspaces
from .measuring import cell, outcome, reading, value
from .networks import NOISE, WIDTH, Network
from .task import LENGTH
from .truths import SITES, TRUTHS, Truth

RUNS = 20
PLANTED_DIMENSIONS = {"spread_over_4": 4, "circle_of_6": 2}
"""Directions that the state really lies on, where it is not one."""


def measured(build: Callable[[], Network], classes: int = 2, **params: Any) -> Outcome:
    return outcome(cell(build(), classes), "subspace", **params)


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda truth: truth.name)
def test_directions_of_class_means_break_the_output_where_the_state_is_used(truth: Truth) -> None:
    k, causal = PLANTED_DIMENSIONS.get(truth.name, 1), truth.causal_site["means"]
    found = measured(truth.build, truth.classes, ks=[k])
    for index, site in enumerate(SITES):
        at = {"site": site, "basis": "class_means", "k": k}
        effect = value(found, "effect", **at)
        if causal is not None and index >= SITES.index(causal):
            assert effect > 30.0, site
        elif not truth.stray_effects:
            assert effect < 1.0, site
    if truth.best_site is not None:
        assert value(found, "refit_skill", site=truth.best_site, basis="class_means", k=k) < 0.1


@pytest.fixture(scope="module")
def spread() -> Outcome:
    return measured(lambda: networks.spread(5, networks.simplex(5)), 5)


def test_a_state_on_four_directions_takes_four(spread: Outcome) -> None:
    at = {"site": "block.1", "basis": "class_means"}
    effects = [value(spread, "effect", k=k, **at) for k in (1, 2, 4)]
    # Which of four equal directions come first is the sample's choice, and so is how many classes the rest tells apart.
    assert -1.0 < effects[0] < 25.0
    assert effects[0] - 1.0 < effects[1] < 60.0
    assert effects[2] == pytest.approx(80.0, abs=3.0)
    assert value(spread, "accuracy", k=4, **at) == pytest.approx(0.2, abs=0.03)
    assert value(spread, "refit_skill", k=1, **at) > 0.95
    assert abs(value(spread, "refit_skill", k=4, **at)) < 0.05


def test_the_share_of_variance_is_the_planted_one(spread: Outcome) -> None:
    nuisance = 0.15**2 / 3
    planted = (1.0 + 4 * nuisance) / (1.0 + WIDTH * nuisance)
    for basis in ("pca", "class_means"):
        assert value(spread, "variance_share", site="block.1", basis=basis, k=4) == pytest.approx(planted, abs=0.01)


def test_more_directions_than_there_are_is_undefined_and_says_so(spread: Outcome) -> None:
    for basis, k, reason in (
        ("class_means", 8, "rank_exceeded: class_means has 4 here"),
        ("class_means", WIDTH, f"rank_exceeded: {WIDTH} directions of a width of {WIDTH} leave nothing"),
        ("pca", WIDTH, f"rank_exceeded: {WIDTH} directions of a width of {WIDTH} leave nothing"),
    ):
        for metric in ("accuracy", "drop", "random_drop", "effect", "refit_accuracy", "refit_skill", "variance_share"):
            found = reading(spread, metric, site="block.1", basis=basis, k=k)
            assert (found.value, found.status, found.reason) == (None, "undefined", reason)
    assert isinstance(value(spread, "effect", site="block.1", basis="pca", k=8), float)


def test_a_state_that_varies_most_is_the_first_principal_direction() -> None:
    found = measured(subspaces.loud_state, ks=[1])
    at = {"site": "block.1", "basis": "pca", "k": 1}
    nuisance = NOISE**2 / 3
    assert value(found, "variance_share", **at) == pytest.approx((9 + nuisance) / (9 + WIDTH * nuisance), abs=0.01)
    assert value(found, "effect", **at) > 45.0
    assert abs(value(found, "refit_skill", **at)) < 0.05
    assert value(found, "effect", **{**at, "site": "block.0"}) < 1.0


def test_a_state_that_varies_less_than_nuisance_is_no_leading_principal_direction() -> None:
    """Three directions of nuisance are larger, so that the state comes fourth; the class means find it at once."""
    found = measured(subspaces.quiet_state, ks=[1, 2, subspaces.LOUD, subspaces.LOUD + 1])
    for k in (1, 2, subspaces.LOUD):
        assert value(found, "drop", site="block.1", basis="pca", k=k) == pytest.approx(0.0, abs=0.5)
        assert value(found, "refit_skill", site="block.1", basis="pca", k=k) > 0.98
    assert value(found, "drop", site="block.1", basis="pca", k=subspaces.LOUD + 1) > 45.0
    assert value(found, "effect", site="block.1", basis="class_means", k=1) > 40.0
    assert value(found, "variance_share", site="block.1", basis="class_means", k=1) < 0.05


def test_a_hidden_copy_breaks_with_the_principal_directions_while_the_state_stays_readable() -> None:
    """The head of `ignored_copy` uses two directions of large variance; the plain copy beside them is readable."""
    found = measured(networks.ignored_copy, ks=[1, 2])
    at = {"site": "block.1", "basis": "pca", "k": 2}
    assert value(found, "effect", **at) > 30.0
    assert value(found, "refit_skill", **at) > 0.98
    assert value(found, "effect", site="block.1", basis="class_means", k=1) == pytest.approx(0.0, abs=0.5)


def test_counts_are_those_behind_the_readings(spread: Outcome) -> None:
    clean, correct, random = (
        spread.arrays[name] / LENGTH for name in ("correct/clean", "correct/class_means/2", "random/class_means/2")
    )
    for index, site in enumerate(SITES):
        at = {"site": site, "basis": "class_means", "k": 2}
        drop, random_drop = clean.mean() - correct[index].mean(), clean.mean() - random[index].mean() / 8
        assert value(spread, "accuracy", **at) == pytest.approx(correct[index].mean())
        assert value(spread, "effect", **at) == pytest.approx(100 * (drop - random_drop))
        refit = spread.arrays["refit/class_means/2"][index].mean() / LENGTH
        assert value(spread, "refit_accuracy", **at) == pytest.approx(refit)
    assert (spread.arrays["correct/class_means/8"] == -1).all()


def test_the_fill_is_the_one_asked_for() -> None:
    mean, zero = (measured(subspaces.loud_state, ks=[1], fill=fill) for fill in ("mean", "zero"))
    assert not np.array_equal(mean.arrays["correct/pca/1"], zero.arrays["correct/pca/1"])


@pytest.mark.parametrize("wrong", [{"ks": []}, {"ks": [0, 1]}, {"ks": [2, 2]}, {"fill": "median"}, {"k": [1]}], ids=str)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        load_protocol("subspace").params.model_validate(wrong)


def rate(runs: int, basis: str = "class_means", k: int = 1) -> float:
    """The share of runs in which an ablation that changes answers at random has an effect above 0 at block 1.

    Each run has data and random subspaces of its own. Of 200 runs: 0.025 for class means and k = 1, 0.025 and 0.03 for
    principal directions and k = 1 and 4; an interval of 95 % leaves out 0 on this side in 0.025.
    """
    found = 0
    for run in range(runs):
        view = cell(subspaces.guesses_beside(), seed=run, stream=run, train=100, test=20, evaluate=100)
        low = reading(outcome(view, "subspace", ks=[k], draws=400), "effect", site="block.1", basis=basis, k=k).low
        assert low is not None
        found += low > 0
    return found / runs


def test_a_null_effect_is_found_as_rarely_as_its_interval_says() -> None:
    assert rate(RUNS) <= 0.1
