"""Every protocol returns the planted answer on every planted network."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from layerstate.suite.protocols import CellView, Outcome

from . import networks
from .measuring import FILLS, cell, outcome, reading, value
from .truths import SITES, TRUTHS, Truth

CLEAR_EFFECT = 10.0
"""Percentage points: every planted effect is larger, every planted absence of one far smaller."""


@dataclass(frozen=True)
class Measured:
    truth: Truth
    view: CellView
    behaviour: Outcome
    profile: Outcome
    causal: Outcome


@pytest.fixture(scope="module", params=TRUTHS, ids=lambda truth: truth.name)
def measured(request: pytest.FixtureRequest) -> Measured:
    truth: Truth = request.param
    view = cell(truth.build(), truth.classes)
    return Measured(truth, view, *(outcome(view, name) for name in ("behaviour", "probe_profile", "causal")))


@pytest.fixture(params=FILLS)
def ruler(request: pytest.FixtureRequest, measured: Measured) -> str:
    if request.param not in measured.truth.causal_site:
        pytest.skip("nothing is planted for this ruler")
    return request.param


def profile_at(measured: Measured, site: str, control: str) -> float:
    return value(measured.profile, "skill", site=site, variable="sum", control=control)


def test_behaviour_tells_what_the_output_does(measured: Measured) -> None:
    for length in (12, 24):
        skill = value(measured.behaviour, "skill", length=length)
        assert skill == pytest.approx(1.0, abs=0.001) if measured.truth.solved else abs(skill) < 0.06


def test_the_profile_rises_where_the_state_is_written(measured: Measured) -> None:
    best = measured.truth.best_site
    for index, site in enumerate(SITES):
        written = best is not None and index >= SITES.index(best)
        skill = profile_at(measured, site, "trained")
        assert skill > 0.98 if written else skill < 0.1, site


def test_controls_sit_at_chance(measured: Measured) -> None:
    for site in SITES:
        assert abs(profile_at(measured, site, "untrained")) < 0.08
        assert abs(profile_at(measured, site, "shuffled")) < 0.08


@pytest.mark.parametrize("on", ["skill", "trained_gain"])
def test_summaries_name_the_planted_site_and_shape(measured: Measured, on: str) -> None:
    truth, at = measured.truth, {"variable": "sum", "on": on}
    assert reading(measured.profile, "shape", **at).value == truth.shape
    best = reading(measured.profile, "best_site", **at)
    assert best.value == truth.best_site
    if truth.best_site is None:
        assert (best.status, best.reason) == ("undefined", "unreadable")
    else:
        tied = SITES[SITES.index(truth.best_site) :]
        assert reading(measured.profile, "tie_set", **at).value == ", ".join(tied)


def test_an_untrained_profile_is_unreadable(measured: Measured) -> None:
    assert reading(measured.profile, "shape", variable="sum", on="untrained").value == "unreadable"


def test_the_causal_site_and_the_gap_are_the_planted_ones(measured: Measured, ruler: str) -> None:
    at = {"ruler": ruler, "fill": FILLS[ruler]}
    site, gap = (reading(measured.causal, metric, **at) for metric in ("causal_site", "gap"))
    assert site.value == measured.truth.causal_site[ruler]
    assert gap.value == measured.truth.gap(ruler)
    if gap.value is None:
        why = "no_causal_site" if measured.truth.solved else "clean_at_chance"
        assert (gap.status, gap.reason) == ("undefined", why)
    else:
        assert gap.low is not None
        assert gap.high is not None
        assert gap.low <= gap.value <= gap.high


def test_effects_appear_where_the_state_is_used_and_nowhere_before(measured: Measured, ruler: str) -> None:
    truth = measured.truth
    causal = truth.causal_site[ruler]
    for index, site in enumerate(SITES):
        effect = value(measured.causal, "effect", site=site, ruler=ruler, fill=FILLS[ruler])
        if causal is not None and index >= SITES.index(causal):
            assert effect > CLEAR_EFFECT, site
        elif not truth.stray_effects:
            assert effect < 1.0, site


def test_taking_the_token_out_is_not_taken_for_the_state() -> None:
    """A GRU trained on parity: its class means differ at `embed` by chance, along the token: an effect of 49 pp."""
    view = cell(networks.token_in_stream())
    at = {"ruler": "means", "fill": "mean"}
    any_site, holding = (outcome(view, "causal", held_from=share, causal_within=0.05) for share in (0.0, 0.5))
    assert value(any_site, "effect", site="embed", **at) > 40
    assert reading(any_site, "causal_site", **at).value == "embed"
    assert reading(holding, "causal_site", **at).value == "block.2"


def test_random_subspaces_of_the_same_rank_do_no_such_thing(measured: Measured, ruler: str) -> None:
    for site in SITES:
        at = {"site": site, "ruler": ruler, "fill": FILLS[ruler]}
        assert value(measured.causal, "rank", **at) == measured.truth.rank
        assert abs(value(measured.causal, "random_drop", **at)) < 5.0


def test_refitted_probes_say_whether_the_state_was_erased(measured: Measured) -> None:
    truth = measured.truth
    for ruler, erased in truth.erased.items():
        at = {"site": truth.best_site, "ruler": ruler, "fill": FILLS[ruler]}
        skill = value(measured.causal, "refit_skill", **at)
        assert skill < 0.1 if erased else skill > 0.95, ruler


def test_every_number_is_there_converged_and_inside_its_interval(measured: Measured) -> None:
    for found in (measured.behaviour, measured.profile, measured.causal):
        for each in found.readings:
            assert each.status in ("ok", "undefined"), each
            assert (each.value is None) == (each.status == "undefined"), each
            if isinstance(each.value, float) and each.low is not None and each.high is not None:
                assert each.low - 1e-9 <= each.value <= each.high + 1e-9, each
