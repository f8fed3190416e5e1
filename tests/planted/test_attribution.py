"""What a component contributes, on networks where that is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from layerstate.suite.protocols import Outcome, Related, Relation, load_protocol
from layerstate.suite.runner.view import View
from layerstate.tasks import Batch

from . import networks, parts
from .measuring import adapter, outcome, reading, value
from .networks import Network
from .task import LENGTH, RunningSum, task_spec

SIZES = {"train": 2, "test": 2, "evaluate": 400}
LENGTHS = (LENGTH, 2 * LENGTH)
CONV1D: dict[str, Any] = {
    "component": "conv1d",
    "retrain": True,
    "retrain_mode": "bypass",
    "posthoc": ["bypass", "current_tap"],
    "draws": 200,
}
RUNS = 20


class OwnSummand(RunningSum):
    """The state is the token's own summand: nothing to carry from one position to the next."""

    def _labelled(self, tokens: np.ndarray) -> Batch:
        return Batch(tokens, {"sum": tokens % 2})


def view_of(network: Network, task: RunningSum | None = None, *, seed: int = 0, backend: str = "cpu") -> View:
    task = task or RunningSum(2)
    return View(adapter(network, 2), task, task_spec(2, **SIZES), seed, lambda: adapter(network, 2), backend=backend)


def measured(view: View, twin: Related | None = None, **params: Any) -> Outcome:
    if twin is not None:
        view.relate = {"without": twin}.__getitem__
    return outcome(view, "component_attribution", **CONV1D | params)


def twin_of(network: Network, **options: Any) -> Related:
    return Related(view_of(network), passed=False, reason="below", backend=options.get("backend", "cpu"))


def test_each_mode_takes_what_was_planted_at_every_length() -> None:
    """Bypassed it guesses; with the current tap alone it is right at the first position and guesses after it."""
    found = measured(view_of(parts.convolving("state")), retrain=False)
    for length in LENGTHS:
        bypass, tap = ({"mode": mode, "length": length} for mode in ("bypass", "current_tap"))
        assert value(found, "posthoc_accuracy", **bypass) == pytest.approx(0.5, abs=0.03)
        assert value(found, "posthoc_effect", **bypass) == pytest.approx(-50, abs=3)
        assert value(found, "posthoc_effect", **tap) == pytest.approx(-50 * (length - 1) / length, abs=3)
        low, high = reading(found, "posthoc_effect", **tap).low, reading(found, "posthoc_effect", **tap).high
        assert low is not None
        assert high is not None
        assert low < -50 * (length - 1) / length < high < 0


def test_a_component_that_matters_on_one_task_does_not_on_another() -> None:
    """The same component writes the same; on the second task the head reads the token's own summand."""
    found = measured(view_of(parts.convolving("token"), OwnSummand(2)), retrain=False)
    for length in LENGTHS:
        for mode in ("bypass", "current_tap"):
            effect = reading(found, "posthoc_effect", mode=mode, length=length)
            assert (effect.value, effect.low, effect.high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("build", "effect"),
    [(networks.without_state, -50.0), (lambda: networks.written_at(2), 0.0)],
    ids=["never learns", "learns all the same"],
)
def test_training_without_it_is_compared_by_sequence_and_a_failure_counts(
    build: Callable[[], Network], effect: float
) -> None:
    found = measured(view_of(parts.convolving("state")), twin_of(build()))
    for length in LENGTHS:
        assert value(found, "retrain_effect", length=length) == pytest.approx(effect, abs=3)
        assert value(found, "retrain_accuracy", length=length) == pytest.approx(1 + effect / 100, abs=0.03)
        assert reading(found, "retrain_effect", length=length).n == SIZES["evaluate"]


def test_the_counts_are_those_behind_the_readings() -> None:
    found = measured(view_of(parts.convolving("state")), twin_of(networks.without_state()), min_position=4)
    for length in LENGTHS:
        clean = found.arrays[f"correct/clean/{length}"] / (length - 4)
        for name, metric, at in (
            ("retrain", "retrain", {}),
            ("posthoc/bypass", "posthoc", {"mode": "bypass"}),
            ("posthoc/current_tap", "posthoc", {"mode": "current_tap"}),
        ):
            share = found.arrays[f"correct/{name}/{length}"] / (length - 4)
            assert value(found, f"{metric}_accuracy", length=length, **at) == pytest.approx(share.mean())
            effect = value(found, f"{metric}_effect", length=length, **at)
            assert effect == pytest.approx(100 * (share - clean).mean())


def reasons(found: Outcome, kind: str) -> set[str | None]:
    return {each.reason for each in found.readings if each.metric.startswith(kind)}


def test_what_the_model_does_not_declare_is_undefined_and_the_twin_is_not_asked_for() -> None:
    found = measured(view_of(parts.guessing()))
    assert reasons(found, "posthoc") == reasons(found, "retrain") == {"no_component: the model declares mixer"}
    found = measured(view_of(networks.without_state()))
    assert reasons(found, "posthoc") == {"no_component: the model declares none"}
    found = measured(view_of(parts.convolving("state")), posthoc=["zero", "bypass"], retrain=False)
    missing = reading(found, "posthoc_effect", mode="zero", length=LENGTH)
    assert missing.reason == "no_mode: the model declares conv1d with bypass, current_tap"
    assert value(found, "posthoc_effect", mode="bypass", length=LENGTH) < -40
    assert reasons(found, "retrain") == {"not_retrained"}


def test_a_component_that_never_runs_measures_nothing() -> None:
    found = measured(view_of(parts.convolving("state", called=False)), retrain=False)
    for reason in reasons(found, "posthoc"):
        assert reason is not None
        assert reason.startswith("never_fired: ")


def test_two_backends_are_not_compared() -> None:
    found = measured(view_of(parts.convolving("state")), twin_of(networks.without_state(), backend="cuda"))
    assert reasons(found, "retrain") == {"backends_differ: cpu; without it cuda"}
    assert value(found, "posthoc_effect", mode="bypass", length=LENGTH) < -40


def test_a_twin_that_is_not_there_says_why() -> None:
    found = measured(view_of(parts.convolving("state")), Related(None, reason="no_component: it has no conv1d"))
    assert reasons(found, "retrain") == {"no_component: it has no conv1d"}


def test_a_length_that_the_model_refuses_leaves_the_others() -> None:
    found = measured(view_of(parts.convolving("state", longest=LENGTH)), twin_of(networks.without_state()))
    assert value(found, "posthoc_effect", mode="bypass", length=LENGTH) < -40
    for metric, at in (("posthoc_effect", {"mode": "bypass"}), ("retrain_effect", {})):
        reason = reading(found, metric, length=2 * LENGTH, **at).reason
        assert reason == f"length_not_taken: {2 * LENGTH} tokens are more than the {LENGTH} that this model takes."


def test_a_twin_that_refuses_a_length_leaves_what_was_measured_after_training() -> None:
    twin = twin_of(parts.convolving("state", longest=LENGTH))
    found = measured(view_of(parts.convolving("state")), twin)
    assert value(found, "retrain_effect", length=LENGTH) == 0
    reason = reading(found, "retrain_effect", length=2 * LENGTH).reason
    assert reason is not None
    assert reason.startswith("length_not_taken: ")
    assert value(found, "posthoc_effect", mode="bypass", length=2 * LENGTH) < -40


def test_an_ablation_does_not_outlive_the_measurement() -> None:
    view = view_of(parts.convolving("state"))
    tokens = view.data("evaluate", LENGTH).tokens
    before = view.adapter.logits(tokens)
    measured(view, retrain=False)
    np.testing.assert_array_equal(view.adapter.logits(tokens), before)


def test_the_relation_is_the_model_trained_without_it_where_that_is_asked_for() -> None:
    code = load_protocol("component_attribution")
    assert code.relations is not None
    params = code.params.model_validate(CONV1D)
    assert code.relations("parity", params) == {"without": Relation(without=("conv1d", "bypass"))}
    assert code.relations("parity", params.model_copy(update={"retrain": False})) == {}


@pytest.mark.parametrize(
    "wrong",
    [{"component": ""}, {"posthoc": ["bypass", "bypass"]}, {"posthoc": [], "retrain": False}, {"min_position": -1}],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        load_protocol("component_attribution").params.model_validate(CONV1D | wrong)


def test_no_position_left_to_score_is_an_error() -> None:
    with pytest.raises(ValueError, match="min_position 12 leaves no position of a sequence of length 12"):
        measured(view_of(parts.convolving("state")), retrain=False, min_position=LENGTH)


def rate(runs: int) -> float:
    """In what share of runs a component of a model at chance has an effect."""
    found = 0
    for run in range(runs):
        task, network = RunningSum(2, run), parts.guessing()
        view = view_of(network, task, seed=run)
        params = {"component": "mixer", "posthoc": ["zero"], "draws": 500}
        effect = reading(outcome(view, "component_attribution", **params), "posthoc_effect", mode="zero", length=LENGTH)
        assert effect.low is not None
        assert effect.high is not None
        assert effect.low < effect.high
        found += effect.low > 0 or effect.high < 0
    return found / runs


def test_a_model_at_chance_has_an_effect_about_as_rarely_as_the_interval_says() -> None:
    """5 % of intervals should miss 0."""
    assert rate(RUNS) * RUNS <= 4
