"""What patching says of networks where it is known what each site carries, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from layerstate.adapters import AdapterError
from layerstate.suite.protocols import CellView
from layerstate.suite.runner.view import View
from layerstate.tasks import Batch
from layerstate.tasks.errors import TaskError

from . import networks, parts
from .measuring import adapter, cell, outcome, reading, value
from .networks import Network
from .task import LENGTH, RunningSum, task_spec
from .truths import SITES

SIZES = {"train": 20, "test": 20, "evaluate": 60}
RUNS = 20


def recoveries(view: CellView, read: str, **params: Any) -> list[float]:
    """Recovery at every site, whether or not it is marked as trivial."""
    found = outcome(view, "patching", draws=200, **params)
    by_site = {
        each.at["site"]: each for each in found.readings if each.metric == "recovery" and each.at["read"] == read
    }
    assert list(by_site) == list(SITES)
    values = [each.value for each in by_site.values()]
    assert all(isinstance(each, float) for each in values)
    return [float(each) for each in values if isinstance(each, float)]


@pytest.mark.parametrize(
    ("build", "own", "downstream"),
    [
        (networks.token_in_stream, [1, 1, 1, 1, 1], [1, 1, 1, 0, 0]),
        (parts.handed_on, [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]),
        (lambda: networks.written_at(2), [0, 0, 0, 1, 1], [0, 0, 0, 0, 0]),
        (networks.early_copy_used_late, [0, 0, 0, 1, 1], [0, 0, 0, 0, 0]),
        (lambda: parts.in_two_parts(0.7), [0, 0, 0.7, 0.7, 1], [0, 0, 0, 0, 0]),
        (lambda: parts.in_two_parts(1.25), [0, 0, 1.25, 1.25, 1], [0, 0, 0, 0, 0]),
    ],
    ids=["computed from the stream", "handed on", "computed beside it", "unused copy", "two parts", "overshooting"],
)
def test_recovery_is_what_was_planted(
    build: Callable[[], Network], own: Sequence[float], downstream: Sequence[float]
) -> None:
    view = cell(build(), **SIZES)
    assert recoveries(view, "self") == pytest.approx(own, abs=1e-5)
    assert recoveries(view, "downstream") == pytest.approx(downstream, abs=1e-5)


def test_five_classes_are_read_by_their_own_pair_of_logits() -> None:
    view = cell(networks.spread(5, networks.simplex(5)), 5, **SIZES)
    assert recoveries(view, "self") == pytest.approx([0, 0, 1, 1, 1], abs=1e-5)


def marked(view: CellView) -> dict[str, list[object]]:
    """The sites whose recovery is marked as trivial, by where it is read."""
    found = outcome(view, "patching", draws=200)
    return {
        read: [each.at["site"] for each in found.readings if each.at.get("read") == read and "trivial" in each.at]
        for read in ("self", "downstream")
    }


def test_what_holds_by_construction_is_marked_and_nothing_else() -> None:
    """Nothing before the position differs, so that a patch at any site makes all up to it as in the clean run."""
    view = cell(networks.token_in_stream(), **SIZES)
    assert marked(view) == {"self": list(SITES), "downstream": ["embed", "block.3"]}
    found = outcome(view, "patching", draws=200)
    assert value(found, "recovery", site="block.3", read="self", trivial="true") == 1
    assert value(found, "recovery", site="block.3", read="downstream", trivial="true") == 0


def test_a_model_that_passes_tokens_beside_the_stream_says_something_at_every_site_but_the_last() -> None:
    assert marked(cell(networks.written_at(2), **SIZES)) == {"self": ["block.3"], "downstream": ["block.3"]}


class MoreTokens(RunningSum):
    """A corruption that changes two other tokens too, as brackets do to stay valid."""

    def __init__(self, offset: int) -> None:
        super().__init__(2)
        self.offset = offset

    def corrupt(self, batch: Batch, position: int, rng: np.random.Generator) -> Batch:
        tokens = super().corrupt(batch, position, rng).tokens.copy()
        start = position + self.offset
        tokens[:, start : start + 2] = tokens[:, start : start + 2] ^ 1
        return self._labelled(tokens)


@pytest.mark.parametrize(("offset", "own"), [(-3, ["block.3"]), (2, list(SITES))], ids=["before", "after"])
def test_the_embedding_is_not_trivial_where_other_tokens_differ_too(offset: int, own: list[str]) -> None:
    network = networks.token_in_stream()
    view = View(adapter(network, 2), MoreTokens(offset), task_spec(2, **SIZES), 0, lambda: adapter(network, 2))
    assert marked(view) == {"self": own, "downstream": ["block.3"]}


def test_without_a_state_there_is_no_pair_to_recover() -> None:
    found = outcome(cell(networks.without_state(), **SIZES), "patching")
    for read in ("self", "downstream"):
        assert value(found, "pairs", read=read) == 0
        assert value(found, "pairs_left_out", read=read) == SIZES["evaluate"]
        recovered = [each for each in found.readings if each.metric == "recovery" and each.at["read"] == read]
        assert [(each.value, each.reason) for each in recovered] == [(None, "no_pairs")] * len(SITES)
        clean, corrupt = (value(found, "logit_difference", read=read, control=name) for name in ("clean", "corrupt"))
        assert clean == pytest.approx(corrupt)


def test_pairs_that_the_model_does_not_tell_apart_are_left_out_and_counted() -> None:
    network, told = parts.told_apart_sometimes()
    view = cell(network, **SIZES)
    told_BL = told(torch.as_tensor(view.data("evaluate", LENGTH).tokens.copy())).numpy()
    found = outcome(view, "patching", draws=200)
    for read, position in (("self", LENGTH // 2), ("downstream", LENGTH - 1)):
        expected = int(told_BL[:, position].sum())
        assert 0 < expected < SIZES["evaluate"]
        assert value(found, "pairs", read=read) == expected
        assert value(found, "pairs_left_out", read=read) == SIZES["evaluate"] - expected
    assert value(found, "recovery", site="block.1", read="self") == pytest.approx(1)
    assert reading(found, "recovery", site="block.1", read="self").n == value(found, "pairs", read="self")


class OwnSummand(RunningSum):
    """The state is the token's own summand, so that a corruption changes it at one position alone."""

    def _labelled(self, tokens: np.ndarray) -> Batch:
        return Batch(tokens, {"sum": tokens % 2})


def test_a_state_that_differs_at_one_position_alone_is_read_there_alone() -> None:
    network = parts.convolving("token")
    view = View(adapter(network, 2), OwnSummand(2), task_spec(2, **SIZES), 0, lambda: adapter(network, 2))
    found = outcome(view, "patching", draws=200)
    assert value(found, "recovery", site="block.0", read="self") == pytest.approx(1)
    assert value(found, "pairs_left_out", read="self") == 0
    assert value(found, "pairs_left_out", read="downstream") == SIZES["evaluate"]
    assert reading(found, "recovery", site="block.0", read="downstream").reason == "no_pairs"
    assert reading(found, "logit_difference", read="downstream", control="clean").reason == "no_pairs"


class Incorruptible(RunningSum):
    def corrupt(self, batch: Batch, position: int, rng: np.random.Generator) -> Batch:
        raise TaskError("no other state is possible")


def test_a_task_without_a_corruption_is_undefined_and_says_why() -> None:
    network = networks.written_at(1)
    view = View(adapter(network, 2), Incorruptible(2), task_spec(2, **SIZES), 0, lambda: adapter(network, 2))
    found = outcome(view, "patching")
    assert {each.metric for each in found.readings} == {"recovery", "logit_difference", "pairs", "pairs_left_out"}
    assert {each.reason for each in found.readings} == {"no_corruption: no other state is possible"}


def test_logit_differences_of_both_runs_are_those_of_the_head() -> None:
    """The head gives ±8 times the coordinate; noise along it is the same in both runs, and small."""
    found = outcome(cell(networks.written_at(1), **SIZES), "patching", draws=200)
    assert value(found, "logit_difference", read="self", control="clean") == pytest.approx(16, abs=3)
    assert value(found, "logit_difference", read="self", control="corrupt") == pytest.approx(-16, abs=3)


def test_no_more_pairs_are_patched_than_asked_and_they_are_the_first() -> None:
    view = cell(networks.written_at(1), **SIZES)
    few, many = (outcome(view, "patching", draws=200, max_pairs=most) for most in (10, 10**6))
    assert value(few, "pairs", read="self") == 10
    assert value(many, "pairs", read="self") == SIZES["evaluate"]


def test_the_pairs_are_the_same_for_all_seeds() -> None:
    one, other = (
        outcome(cell(networks.spread(5, networks.simplex(5)), 5, seed=seed, **SIZES), "patching", draws=200)
        for seed in (0, 1)
    )
    for name in ("clean", "corrupt"):
        at = {"read": "downstream", "control": name}
        assert value(one, "logit_difference", **at) == value(other, "logit_difference", **at)


class Faulty:
    """An adapter that does not go on where it was asked to, at one site."""

    def __init__(self, network: Network, site: str) -> None:
        self._inner, self._site = adapter(network, 2), site

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def resume(self, tokens: np.ndarray, site: str, activations: np.ndarray) -> np.ndarray:
        logits = self._inner.resume(tokens, site, activations)
        return logits + 0.01 if site == self._site else logits


def test_a_patch_of_a_run_into_itself_that_changes_something_is_an_error_that_names_the_site() -> None:
    network = networks.written_at(1)
    faulty: Any = Faulty(network, "block.2")
    view = View(faulty, RunningSum(2), task_spec(2, **SIZES), 0, lambda: adapter(network, 2))
    with pytest.raises(AdapterError, match=r"at block\.2 gives logits up to 0\.01 away"):
        outcome(view, "patching")


def rate(runs: int) -> float:
    """In what share of runs a recovery is found where patching moves the output by chance alone."""
    found = 0
    for run in range(runs):
        view = cell(parts.noise_when_patched(), seed=run, stream=run, train=2, test=2, evaluate=200)
        own = reading(outcome(view, "patching", draws=500), "recovery", site="block.1", read="self")
        assert own.low is not None
        assert own.high is not None
        assert own.low < own.high
        found += own.low > 0 or own.high < 0
    return found / runs


def test_chance_is_taken_for_recovery_about_as_rarely_as_the_interval_says() -> None:
    """5 % of intervals should miss 0."""
    assert rate(RUNS) * RUNS <= 4
