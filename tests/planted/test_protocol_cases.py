"""What the probing protocols do where a state, a site or a sample gives nothing to measure, and what they leave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from layerstate.suite.protocols import BUILT_IN, CellView, Outcome, Related, load_protocol
from layerstate.suite.protocols.probing import Labels, ProbeParams, labels_of, score_site
from layerstate.suite.runner.view import View
from layerstate.suite.spec.schema import ProtocolSpec
from layerstate.tasks import Batch
from ruamel.yaml import YAML

from . import networks
from .measuring import adapter, cell, outcome, reading, value
from .task import LENGTH, RunningSum, task_spec

SPECS = Path(__file__).parents[2] / "specs" / "protocols"
MEANS = {"ruler": "means", "fill": "mean"}
ONLY_MEANS = [MEANS]


NAMES = sorted(path.stem for path in SPECS.glob("*.yaml"))


def small_cell() -> CellView:
    """A cell whose related cells are all another one, of a network that writes the state later."""
    view = cell(networks.written_at(1), train=200, test=100, evaluate=100)
    assert isinstance(view, View)
    view.relate = lambda _: Related(cell(networks.written_at(2), train=200, test=100, evaluate=100), passed=True)
    return view


def small_outcome(view: CellView, name: str) -> Outcome:
    spec = declared(name)
    return outcome(view, spec.measures, **spec.params)


@pytest.fixture(scope="module")
def view() -> CellView:
    return small_cell()


@pytest.fixture(scope="module")
def outcomes(view: CellView) -> Mapping[str, Outcome]:
    return {name: small_outcome(view, name) for name in NAMES}


def declared(name: str) -> ProtocolSpec:
    return ProtocolSpec.model_validate(YAML(typ="safe").load(SPECS / f"{name}.yaml"))


def test_every_built_in_protocol_has_a_yaml() -> None:
    assert {declared(name).measures for name in NAMES} == set(BUILT_IN)


@pytest.mark.parametrize("name", NAMES)
def test_the_yaml_declares_every_metric_and_no_other(name: str, outcomes: Mapping[str, Outcome]) -> None:
    spec = declared(name)
    assert {each.metric for each in outcomes[name].readings} == set(spec.metrics)
    assert all(metric.description for metric in spec.metrics.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_yaml_shows_every_parameter_at_its_default(name: str) -> None:
    spec = declared(name)
    code = load_protocol(spec.measures)
    assert set(spec.params) == set(code.params.model_fields)
    if spec.measures == name:
        assert code.params.model_validate(spec.params) == code.params.model_validate({})


@pytest.mark.parametrize("name", NAMES)
def test_no_two_readings_have_the_same_coordinates(name: str, outcomes: Mapping[str, Outcome]) -> None:
    keys = [(each.metric, tuple(sorted(each.at.items()))) for each in outcomes[name].readings]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", NAMES)
def test_a_second_measurement_gives_the_same_numbers(name: str, outcomes: Mapping[str, Outcome]) -> None:
    again = small_outcome(small_cell(), name)
    assert again.readings == outcomes[name].readings
    for key, values in outcomes[name].arrays.items():
        np.testing.assert_array_equal(again.arrays[key], values)


def test_profile_counts_are_those_behind_the_readings(view: CellView, outcomes: Mapping[str, Outcome]) -> None:
    found = outcomes["probe_profile"]
    for control in ("trained", "untrained", "shuffled"):
        shares = (found.arrays[f"correct/{control}/sum"] / found.arrays["scored"]).mean(axis=1)
        for site, share in zip(view.adapter.sites, shares, strict=True):
            assert value(found, "accuracy", site=site, variable="sum", control=control) == pytest.approx(share)


def test_causal_counts_are_those_behind_the_readings(view: CellView, outcomes: Mapping[str, Outcome]) -> None:
    found, draws = outcomes["causal"], 8
    clean, correct, random = (
        found.arrays[name] / LENGTH for name in ("correct/clean", "correct/means/mean", "random/means/mean")
    )
    for index, site in enumerate(view.adapter.sites):
        drop, random_drop = clean.mean() - correct[index].mean(), clean.mean() - random[index].mean() / draws
        assert value(found, "drop", site=site, **MEANS) == pytest.approx(100 * drop)
        assert value(found, "effect", site=site, **MEANS) == pytest.approx(100 * (drop - random_drop))


def test_sites_that_hold_the_same_have_the_same_effect() -> None:
    """Random subspaces of their own a site made six classes on a circle causal at block 2 instead of block 1."""
    found = outcome(cell(networks.spread(6, networks.circle(6)), 6), "causal", ablations=ONLY_MEANS)
    effects = [value(found, "effect", site=f"block.{block}", **MEANS) for block in (1, 2, 3)]
    assert effects[0] == effects[1] == effects[2]
    assert reading(found, "causal_site", **MEANS).value == "block.1"


def test_a_site_without_an_effect_is_not_causal_however_wide_the_reach() -> None:
    """Mamba on parity: a largest effect of 0.3 pp, and a site before it with none, within the reach of 0.5 pp."""
    found = outcome(cell(networks.early_copy_used_late()), "causal", ablations=ONLY_MEANS, causal_within=1.0)
    unused = reading(found, "effect", site="block.0", **MEANS)
    assert unused.low is not None
    assert unused.low <= 0
    assert reading(found, "causal_site", **MEANS).value == "block.2"
    assert value(found, "gap", **MEANS) == -2


class WithFurtherStates(RunningSum):
    """A state that never changes, one that the position fixes, and one with a class that is never seen."""

    def __init__(self) -> None:
        super().__init__(2)
        self.classes = {"sum": 2, "constant": 3, "position": 2, "gap": 4}

    def _labelled(self, tokens: np.ndarray) -> Batch:
        y = np.cumsum(tokens % 2, axis=1) % 2
        position = np.broadcast_to(np.arange(tokens.shape[1]) % 2, tokens.shape)
        states = {"sum": y, "constant": np.ones_like(y), "position": position.copy(), "gap": 3 * y}
        return Batch(tokens, states)


@pytest.fixture(scope="module")
def further() -> Outcome:
    spec = task_spec(2, train=150, test=100, evaluate=50).model_copy(
        update={"states": ["sum", "constant", "position", "gap"]}
    )
    network, untrained = networks.written_at(1), networks.without_state()
    view = View(adapter(network, 2), WithFurtherStates(), spec, 0, lambda: adapter(untrained, 2))
    return outcome(view, "probe_profile")


def test_a_state_with_one_class_is_undefined_and_says_why(further: Outcome) -> None:
    of_constant = [each for each in further.readings if each.at.get("variable") == "constant"]
    assert of_constant
    assert {(each.value, each.status) for each in of_constant} == {(None, "undefined")}
    assert {each.reason for each in of_constant} == {"one_class"}
    assert "correct/trained/constant" not in further.arrays


def test_a_state_that_the_position_fixes_has_accuracy_and_no_skill(further: Outcome) -> None:
    at = {"site": "block.1", "variable": "position", "control": "trained"}
    assert isinstance(reading(further, "accuracy", **at).value, float)
    assert reading(further, "skill", **at).reason == "chance_is_one"
    assert reading(further, "shape", variable="position", on="skill").reason == "chance_is_one"


def test_classes_that_do_not_occur_change_nothing(further: Outcome) -> None:
    for site in ("embed", "block.1"):
        at = {"site": site, "control": "trained"}
        plain, gap = (value(further, "accuracy", variable=variable, **at) for variable in ("sum", "gap"))
        assert gap == pytest.approx(plain, abs=0.01)


def test_activations_that_are_not_finite_are_undefined_and_say_why() -> None:
    y = np.array([0, 1] * 10)
    labels = Labels(np.arange(20), y, y[:, None], y, 0)
    h = np.zeros((20, 3), np.float32)
    h[3, 1] = np.inf
    found = score_site(h, h[:, None], labels, ProbeParams().settings("site"))
    assert (found.probe, found.correct, found.reason) == (None, None, "activations_not_finite")


def test_a_site_that_never_varies_has_no_direction_and_cannot_be_causal() -> None:
    memory = networks.Memory(2)
    code, along = networks.simplex(2), networks.directions(1)
    silent = networks.Stem(memory, networks.directions(networks.WIDTH), torch.zeros(networks.WIDTH))
    writes = {
        0: lambda _: networks.NOISE * memory.hash_BLD(1, networks.WIDTH),
        1: networks.writes_code(memory, code, along),
    }
    found = outcome(cell(networks.Network(silent, writes, networks.reads_code(code, along))), "causal")
    for ruler, fill in (("means", "mean"), ("probe", "zero"), ("probe_per_feature", "zero")):
        at = {"ruler": ruler, "fill": fill}
        assert value(found, "rank", site="embed", **at) == 0
        assert reading(found, "effect", site="embed", **at).reason == "no_direction"
        assert reading(found, "causal_site", **at).value == "block.1"
        assert np.all(found.arrays[f"correct/{ruler}/{fill}"][0] == -1)


def test_a_probe_that_did_not_converge_is_marked_wherever_it_is_used(view: CellView) -> None:
    profile = outcome(view, "probe_profile", max_iterations=1)
    at = {"site": "block.1", "variable": "sum"}
    assert reading(profile, "accuracy", control="trained", **at).status == "not_converged"
    assert reading(profile, "trained_gain", **at).status == "not_converged"
    assert reading(profile, "best_site", variable="sum", on="skill").status == "not_converged"
    causal = outcome(view, "causal", max_iterations=1)
    assert reading(causal, "gap", ruler="probe", fill="zero").status == "not_converged"
    assert reading(causal, "effect", site="block.1", ruler="probe", fill="zero").status == "not_converged"
    assert reading(causal, "effect", site="block.1", **MEANS).status == "ok"
    assert reading(causal, "random_drop", site="block.1", ruler="probe", fill="zero").status == "ok"


def test_one_sequence_to_score_on_gives_values_without_intervals() -> None:
    view = cell(networks.written_at(1), train=50, test=1, evaluate=1)
    for name in ("probe_profile", "causal"):
        found = outcome(view, name)
        numbers = [each for each in found.readings if isinstance(each.value, float) and each.metric != "rank"]
        assert numbers
        assert all(each.low is None and each.reason == "no interval: one sequence" for each in numbers)
    assert reading(outcome(view, "causal"), "gap", **MEANS).reason == "no_causal_site"


def test_probes_are_fitted_on_no_more_positions_than_asked(view: CellView) -> None:
    few, all_of_them = (labels_of(view, "sum", ProbeParams(max_positions=most)) for most in (40, 10**6))
    assert len(few.train) == len(few.index) == 40
    assert len(all_of_them.train) == LENGTH * len(view.data("probe_train", LENGTH))
    np.testing.assert_array_equal(view.data("probe_train", LENGTH).states["sum"].reshape(-1)[few.index], few.train)


def test_a_control_on_fewer_sequences_estimates_the_same(view: CellView) -> None:
    every, few = (outcome(view, "causal", ablations=ONLY_MEANS, random_sequences=some) for some in (None, 100))
    assert few.arrays["random/means/mean"].shape == (5, 100)
    np.testing.assert_array_equal(few.arrays["correct/means/mean"], every.arrays["correct/means/mean"])
    for site in view.adapter.sites:
        assert value(few, "effect", site=site, **MEANS) == pytest.approx(
            value(every, "effect", site=site, **MEANS), abs=1
        )
    assert reading(few, "effect", site="block.1", **MEANS).n == 100
    assert reading(few, "causal_site", **MEANS).value == "block.1"


def test_positions_before_the_first_are_neither_fitted_nor_scored(view: CellView) -> None:
    found = outcome(view, "probe_profile", min_position=5)
    assert set(found.arrays["scored"]) == {LENGTH - 5}
    with pytest.raises(ValueError, match="leaves no position"):
        outcome(view, "causal", min_position=LENGTH)


@pytest.mark.parametrize(
    "wrong",
    [
        {"random_draws": 7},
        {"ablations": []},
        {"ablations": [MEANS, MEANS]},
        {"ablations": [{"ruler": "mean", "fill": "mean"}]},
        {"ablations": [{"ruler": "means", "fill": "median"}]},
        {"solver": "lbfgs"},
        {"tolerance": 0.0},
        {"strength": float("inf")},
        {"best_wihtin": 0.1},
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        load_protocol("causal").params.model_validate(wrong)


def test_an_ablation_does_not_outlive_the_measurement(view: CellView) -> None:
    before = view.adapter.logits(view.data("evaluate", LENGTH).tokens)
    outcome(view, "causal", ablations=ONLY_MEANS)
    np.testing.assert_array_equal(view.adapter.logits(view.data("evaluate", LENGTH).tokens), before)


def test_the_head_that_ignores_the_last_site_is_still_scored_under_ablation() -> None:
    """An edit that changes nothing is a drop of 0, not an error."""
    network = networks.ignored_copy()
    found = outcome(cell(network), "causal", ablations=ONLY_MEANS)
    assert value(found, "drop", site="block.3", **MEANS) == pytest.approx(0.0, abs=0.1)


def test_scikit_learn_can_stand_in_for_the_built_in_solver(view: CellView) -> None:
    at = {"variable": "sum", "control": "trained"}
    ours, reference = (
        outcome(view, "probe_profile", solver=solver, max_iterations=2000) for solver in ("newton", "sklearn")
    )
    for site in view.adapter.sites:
        difference = value(ours, "accuracy", site=site, **at) - value(reference, "accuracy", site=site, **at)
        assert abs(difference) <= 0.002, site
