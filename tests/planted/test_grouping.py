"""Which task goes with which, on networks whose profiles are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from layerstate.suite.protocols import CellView, Outcome, Related, Relation, load_protocol
from layerstate.suite.runner.view import View

from . import networks, parts
from .measuring import adapter, outcome, reading, value
from .networks import Network
from .task import RunningSum, task_spec

SIZES = {"train": 300, "test": 300, "evaluate": 2}
NEAR, FAR = {"pair": "s3-parity"}, {"pair": "s3-dyck"}


def view_of(name: str, network: Network, stream: int = 0) -> View:
    spec = task_spec(2, **SIZES).model_copy(update={"name": name})
    return View(adapter(network, 2), RunningSum(2, stream), spec, 0, lambda: adapter(networks.without_state(), 2))


def passing(view: CellView) -> Related:
    return Related(view, passed=True)


def measured(
    s3: Network, parity: Network, dyck: Network, related: Mapping[str, Related] | None = None, **params: Any
) -> Outcome:
    """Three networks as one model on three tasks, each with data of its own."""
    view = view_of("s3", s3)
    found = {"near": passing(view_of("parity", parity, 1)), "far": passing(view_of("dyck", dyck, 2))}
    view.relate = (found | dict(related or {})).__getitem__
    return outcome(view, "grouping", draws=500, **params)


@pytest.mark.parametrize(
    ("builds", "near", "far"),
    [
        # Profiles over five sites: 0 before the block that writes the state, 1 from there on.
        ((lambda: networks.written_at(1), lambda: networks.written_at(1), lambda: networks.written_at(3)), 0.0, 0.4),
        ((lambda: networks.written_at(0), lambda: networks.written_at(3), lambda: networks.written_at(1)), 0.6, 0.2),
        # Half of the state's positions at one block, all of them at another.
        ((lambda: parts.built_up(0, 2), lambda: networks.written_at(0), lambda: networks.written_at(3)), 0.2, 0.4),
    ],
    ids=["goes with parity", "goes with dyck", "in between"],
)
def test_distances_and_their_difference_are_what_was_planted(
    builds: tuple[Callable[[], Network], ...], near: float, far: float
) -> None:
    found = measured(*(build() for build in builds))
    assert value(found, "distance", **NEAR) == pytest.approx(near, abs=0.03)
    assert value(found, "distance", **FAR) == pytest.approx(far, abs=0.03)
    grouping = reading(found, "grouping")
    assert value(found, "grouping") == pytest.approx(far - near, abs=0.03)
    assert grouping.low is not None
    assert grouping.high is not None
    assert far - near - 0.06 < grouping.low < grouping.high < far - near + 0.06
    assert grouping.low * grouping.high > 0


def test_profiles_are_compared_by_shape_not_by_height() -> None:
    """One that reaches half of the skill at the same site is no further away; unnormalised it would be 0.3."""
    found = measured(networks.written_at(1), parts.built_up(1, 1), _half_only(), unreadable_below=0.05)
    assert value(found, "distance", **NEAR) == pytest.approx(0.0, abs=0.03)
    assert value(found, "distance", **FAR) == pytest.approx(0.0, abs=0.06)


def _half_only() -> Network:
    """The state at half of the positions from block 1 on, and never at the others."""
    network = parts.built_up(1, 2)
    network.blocks[2].write = None
    return network


def test_the_same_profile_thrice_goes_with_neither() -> None:
    found = measured(*(networks.written_at(2) for _ in range(3)))
    grouping = reading(found, "grouping")
    assert grouping.low is not None
    assert grouping.high is not None
    assert grouping.low < 0 < grouping.high


def three_alike(related: Mapping[str, Related] | None = None, **params: Any) -> Outcome:
    return measured(*(networks.written_at(1) for _ in range(3)), related, **params)


def test_a_task_below_the_gate_takes_part_in_nothing() -> None:
    below = Related(view_of("dyck", networks.written_at(3)), passed=False, reason="dyck 0.910 below 0.95")
    found = three_alike({"far": below})
    assert reading(found, "distance", **FAR).reason == "below_gate: dyck 0.910 below 0.95"
    assert reading(found, "grouping").reason == "below_gate: dyck 0.910 below 0.95"
    assert value(found, "distance", **NEAR) == pytest.approx(0, abs=0.03)


def test_every_reason_of_two_missing_tasks_is_given() -> None:
    no_parity = Related(None, reason="no_task: parity is not a task of the suite")
    unreadable = passing(view_of("dyck", networks.without_state()))
    found = three_alike({"near": no_parity, "far": unreadable})
    assert reading(found, "distance", **NEAR).reason == "no_task: parity is not a task of the suite"
    assert reading(found, "distance", **FAR).reason == "unreadable: dyck"
    assert reading(found, "grouping").reason == "unreadable: dyck; no_task: parity is not a task of the suite"


def test_an_unreadable_focus_has_no_distance_from_anything() -> None:
    found = measured(networks.without_state(), networks.written_at(1), networks.written_at(1))
    assert {each.reason for each in found.readings} == {"unreadable: s3"}


def test_on_other_tasks_nothing_is_measured() -> None:
    found = outcome(view_of("dyck", networks.written_at(1)), "grouping")
    assert [each.metric for each in found.readings] == ["distance", "distance", "grouping"]
    assert {each.reason for each in found.readings} == {"measured on s3"}


def test_relations_are_asked_for_on_the_focus_task_alone() -> None:
    code = load_protocol("grouping")
    assert code.relations is not None
    params = code.params.model_validate({"focus": "s5", "near": "z60", "far": "dyck8"})
    assert code.relations("s5", params) == {"near": Relation(task="z60"), "far": Relation(task="dyck8")}
    assert code.relations("s3", params) == code.relations("z60", params) == {}


def test_three_different_tasks_are_needed() -> None:
    with pytest.raises(ValueError, match="must be three different tasks"):
        load_protocol("grouping").params.model_validate({"near": "dyck"})


def test_probes_that_did_not_converge_are_marked() -> None:
    found = three_alike(max_iterations=1)
    assert reading(found, "grouping").status == "not_converged"
