"""Planning: which cells and measurements there are, and what their identities depend on."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from layerstate.suite.runner.errors import CellFailed
from layerstate.suite.runner.pending import Estimator, find_pending
from layerstate.suite.runner.plan import Cell, make_plan, suite_record
from layerstate.suite.runner.store import Store
from layerstate.suite.spec.load import resolve_suite


def only_cell(workshop: Any, **filters: Any) -> Cell:
    (cell,) = workshop.plan(**filters).cells
    return cell


def measurement_ids(cell: Cell) -> dict[str, str]:
    return {each.protocol.name: each.identity for each in cell.measurements}


def test_cells_are_models_times_tasks_times_seeds_in_the_suites_order(workshop: Any) -> None:
    workshop.spec("other", {**workshop_model(), "name": "other"})
    workshop.suite(models=["./tiny.yaml", "./other.yaml"], seeds=[3, 1], protocols=["behaviour", "causal"])
    cells = workshop.plan().cells
    assert [(cell.model.name, cell.task.name, cell.seed) for cell in cells] == [
        ("tiny", "parity8", 3),
        ("tiny", "parity8", 1),
        ("other", "parity8", 3),
        ("other", "parity8", 1),
    ]
    assert all([each.protocol.name for each in cell.measurements] == ["behaviour", "causal"] for cell in cells)
    identities = [cell.identity for cell in cells] + [each.identity for cell in cells for each in cell.measurements]
    assert len(set(identities)) == 12


def workshop_model() -> dict[str, Any]:
    return {
        "kind": "model",
        "title": "m",
        "adapter": "reference",
        "architecture": {"type": "gru", "blocks": 1, "width": 4, "hidden": 4},
        "training": {"learning_rate": 0.01, "steps": 5},
    }


def test_the_standard_suite_is_planned_whole() -> None:
    plan = make_plan(resolve_suite("standard"))
    assert len(plan.cells) == 5 * 4 * 5
    assert {len(cell.measurements) for cell in plan.cells} == {9}


def test_planning_twice_gives_the_same_identities(workshop: Any) -> None:
    assert only_cell(workshop) == only_cell(workshop)


RETRAINS: dict[str, Callable[[Any], object]] = {
    "steps": lambda w: w.model(training={"steps": 13}),
    "recipe for this task": lambda w: w.suite(
        override={"models": {"tiny": {"training": {"per_task": {"parity8": {"learning_rate": 0.02}}}}}}
    ),
    "width": lambda w: w.model(architecture={"width": 9}),
    "task parameter": lambda w: w.task(params={"probability_of_one": 0.4}),
    "training length": lambda w: w.task(lengths={"train": 12}),
    "seed": lambda w: w.suite(seeds=[1]),
}
REMEASURES: dict[str, Callable[[Any], object]] = {
    "evaluation lengths": lambda w: w.task(lengths={"evaluate": [8, 16]}),
    "sizes": lambda w: w.task(sizes={"evaluate": 51}),
    "gate": lambda w: w.suite(gate={"at_least": 0.5}),
    "protocol parameter": lambda w: w.suite(override={"protocols": {"behaviour": {"params": {"draws": 200}}}}),
}
CHANGES_NOTHING: dict[str, Callable[[Any], object]] = {
    "title": lambda w: w.model(title="Another title", description="More words", cite=["someone"]),
    "key order": lambda w: w.spec("tiny", dict(reversed(list(w.model_spec().items())))),
    "a default written out": lambda w: w.model(training={"clip": 1.0}),
    "a protocol's default written out": lambda w: w.suite(
        override={"protocols": {"behaviour": {"params": {"min_position": 0}}}}
    ),
    "headline": lambda w: w.suite(headline="behaviour.retention"),
    "recipe for another task": lambda w: w.model(training={"per_task": {"s3": {"learning_rate": 0.02}}}),
    "one more model": lambda w: w.spec("more", {**workshop_model(), "name": "more"}),
}


@pytest.mark.parametrize("change", RETRAINS)
def test_what_changes_the_weights_changes_the_cell_and_its_measurements(workshop: Any, change: str) -> None:
    before = only_cell(workshop)
    RETRAINS[change](workshop)
    after = only_cell(workshop)
    assert after.identity != before.identity
    assert measurement_ids(after)["behaviour"] != measurement_ids(before)["behaviour"]


@pytest.mark.parametrize("change", REMEASURES)
def test_what_changes_only_a_measurement_keeps_the_trained_cell(workshop: Any, change: str) -> None:
    before = only_cell(workshop)
    REMEASURES[change](workshop)
    after = only_cell(workshop)
    assert after.identity == before.identity
    assert measurement_ids(after)["behaviour"] != measurement_ids(before)["behaviour"]


@pytest.mark.parametrize("change", CHANGES_NOTHING)
def test_words_and_order_change_no_identity(workshop: Any, change: str) -> None:
    before = only_cell(workshop)
    CHANGES_NOTHING[change](workshop)
    after = only_cell(workshop)
    assert (after.identity, measurement_ids(after)) == (before.identity, measurement_ids(before))


def test_editing_the_users_own_module_makes_another_cell(workshop: Any) -> None:
    path = workshop.user_model()
    before = only_cell(workshop, models=[str(path)])
    code = (workshop.root / "mine.py").read_text()
    workshop.user_model(code.replace("range(2)", "range(3)"))
    after = only_cell(workshop, models=[str(path)])
    assert before.identity != after.identity
    with pytest.raises(CellFailed, match="edited while the suite was running"):
        before.expect_unchanged()
    after.expect_unchanged()


def test_editing_the_users_own_protocol_keeps_the_cell_and_measures_again(workshop: Any) -> None:
    path = workshop.protocol()
    before = only_cell(workshop, protocols=[str(path)])
    workshop.protocol("x = 1")
    after = only_cell(workshop, protocols=[str(path)])
    assert before.identity == after.identity
    assert measurement_ids(before) != measurement_ids(after)


def test_names_that_look_alike_never_share_a_file(workshop: Any) -> None:
    names = ["a.b", "a-b", "a_b", "ab", "a"]
    for name in names:
        workshop.spec(name, {**workshop_model(), "name": name})
    workshop.suite(models=[f"./{name}.yaml" for name in names], seeds=[0, 1])
    cells = workshop.plan().cells
    assert len({cell.identity for cell in cells}) == 10
    store = Store(workshop.out)
    paths = {store.result_path(each.identity) for cell in cells for each in cell.measurements}
    assert len(paths) == 10
    assert all(re.fullmatch(r"[0-9a-f]{24}\.json", path.name) for path in paths)


def test_two_protocols_of_one_cell_have_results_of_their_own(workshop: Any) -> None:
    workshop.suite(protocols=["behaviour", "probe_profile", "causal"])
    assert len(set(measurement_ids(only_cell(workshop)).values())) == 3


def test_a_narrowed_run_records_the_whole_suite_so_that_gaps_show(workshop: Any) -> None:
    workshop.suite(seeds=[0, 1], protocols=["behaviour", "causal"])
    whole, narrow = suite_record(workshop.plan()), suite_record(workshop.plan(seeds=[1], protocols=["causal"]))
    assert narrow == whole
    assert len(narrow.measurements) == 4


def test_models_are_no_part_of_a_suites_identity_and_questions_are(workshop: Any) -> None:
    before = suite_record(workshop.plan())
    mine = suite_record(workshop.plan(models=[str(workshop.user_model())]))
    assert mine.identity == before.identity
    assert set(mine.models) == {"mine"}
    workshop.task(sizes={"evaluate": 51})
    assert suite_record(workshop.plan()).identity != before.identity


def test_a_task_from_outside_the_suite_makes_a_variant(workshop: Any) -> None:
    before = suite_record(workshop.plan())
    variant = suite_record(workshop.plan(tasks=["flip_flop"]))
    assert variant.identity != before.identity
    assert set(variant.tasks) == {"flip_flop"}


def test_the_gate_is_read_by_its_protocol_even_where_a_filter_leaves_it_out(workshop: Any) -> None:
    workshop.suite(
        protocols=["behaviour", "causal"],
        override={"protocols": {"behaviour": {"params": {"min_position": 2}}}},
    )
    cell = only_cell(workshop, protocols=["causal"])
    assert list(measurement_ids(cell)) == ["causal"]
    assert cell.gate_protocol.spec.params["min_position"] == 2  # the suite's behaviour, not the built-in one
    assert cell.gate_length == 8


def test_what_is_done_is_not_pending(workshop: Any) -> None:
    workshop.suite(seeds=[0, 1])
    plan = workshop.plan()
    assert [one.cell.seed for one in find_pending(plan, Store(workshop.out))] == [0, 1]
    assert workshop.run("--seed", 1).exit_code == 0
    pending = find_pending(plan, Store(workshop.out))
    assert [(one.cell.seed, one.trained) for one in pending] == [(0, False)]
    estimator = Estimator.of(Store(workshop.out))
    seconds = estimator.seconds(pending[0])
    assert seconds is not None
    assert 0 < seconds < 60
    assert estimator.remaining(pending, 2) == pytest.approx(seconds)


def test_nothing_similar_gives_no_estimate(workshop: Any) -> None:
    pending = find_pending(workshop.plan(), Store(workshop.out))
    assert Estimator([], []).seconds(pending[0]) is None
    assert Estimator([], []).remaining(pending, 1) is None
    assert Estimator([], []).remaining([], 1) == 0.0


def test_unknown_cells_and_long_ones_go_first(workshop: Any) -> None:
    workshop.spec("long", {**workshop_model(), "name": "long", "training": {"learning_rate": 0.1, "steps": 500}})
    workshop.suite(models=["./tiny.yaml", "./long.yaml"])
    pending = find_pending(workshop.plan(), Store(workshop.out))
    assert [one.cell.model.name for one in Estimator([], []).longest_first(pending)] == ["long", "tiny"]


def test_planning_imports_no_torch(workshop: Any) -> None:
    code = (
        "import sys\n"
        "from layerstate.suite.runner.plan import make_plan, suite_record\n"
        "from layerstate.suite.spec.load import resolve_suite\n"
        f"suite_record(make_plan(resolve_suite({str(workshop.root / 'suite.yaml')!r})))\n"
        "assert 'torch' not in sys.modules and 'sklearn' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
