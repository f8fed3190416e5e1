"""Measurements that need other cells of the same seed: on another task, or trained without a component."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from layerstate.adapters import load_weights
from layerstate.suite.runner.conformance import build_model, load_task_of
from layerstate.suite.runner.curriculum import make_stages
from layerstate.suite.runner.events import CellEnded, CellStarted, CellWaits
from layerstate.suite.runner.executors import InProcess
from layerstate.suite.runner.pending import Estimator, find_pending, find_waiting
from layerstate.suite.runner.plan import Cell, Measurement, suite_record
from layerstate.suite.runner.provenance import backend_of
from layerstate.suite.runner.run import run
from layerstate.suite.runner.settings import Settings
from layerstate.suite.runner.store import Store, read_cells, read_results
from layerstate.suite.runner.threads import one_thread
from layerstate.suite.runner.train import train
from layerstate.suite.spec.identity import cell_identity, measurement_identity
from layerstate.suite.spec.schema import Gate, ProtocolSpec, ReferenceModel, TaskSpec
from layerstate.tasks.errors import SpecError

from .conftest import MODEL, PROTOCOL, TASK, USER_CODE

PATIENCE = 120.0
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["layerstate.suite.runner.cell", "torch._dynamo"])

CODE = """
import numpy as np
from layerstate.suite.protocols import Outcome, Params as Base, Reading, Relation

VERSION = 1
MECHANISTIC = False


class Params(Base):
    task: str | None = None
    component: str | None = None
    mode: str = "zero"
    back: bool = False


def relations(task, params):
    if params.component is not None:
        return {{"other": Relation(without=(params.component, params.mode))}}
    if task == "parity8":
        return {{"other": Relation(task=params.task)}}
    return {{"other": Relation(task="parity8")}} if params.back else {{}}


def accuracy(cell):
    length = cell.spec.lengths.train
    target = cell.data("evaluate", length).states[cell.task.target]
    return float(np.mean(cell.logits("evaluate", length).argmax(-1) == target))


def measure(cell, params):
    {body}
    if not relations(cell.spec.name, params):
        return Outcome([Reading("answer", None, status="undefined", reason="measured on parity8")])
    other = cell.related("other")
    if other.view is None:
        return Outcome([Reading("answer", None, status="undefined", reason=other.reason)])
    return Outcome([
        Reading("answer", accuracy(other.view) - accuracy(cell)),
        Reading("verdict", other.reason or "passed"),
        Reading("same", str(other.backend == other.view.backend == cell.backend)),
    ])
"""
METRICS = {
    name: {"title": name, "unit": "share" if name == "answer" else "word", "direction": "none"}
    for name in ("answer", "verdict", "same")
}


def relating(workshop: Any, name: str, body: str = "pass", **params: Any) -> str:
    """A protocol that compares a cell with one other."""
    (workshop.root / f"{name}.py").write_text(CODE.format(body=body))
    workshop.spec(name, {**PROTOCOL, "name": name, "measures": f"{name}.py", "params": params, "metrics": METRICS})
    return f"./{name}.yaml"


@pytest.fixture
def pair(workshop: Any) -> Any:
    """One model on two tasks, with a protocol for each kind of relation."""
    workshop.spec("second", TASK, name="second", sizes={"evaluate": 40})
    workshop.suite(
        tasks=["./parity8.yaml", "./second.yaml"],
        protocols=[
            "behaviour",
            relating(workshop, "across", task="second"),
            relating(workshop, "twin", component="mixer"),
        ],
    )
    return workshop


def measurement(cell: Cell, protocol: str) -> Measurement:
    (found,) = [each for each in cell.measurements if each.protocol.name == protocol]
    return found


def related(workshop: Any, protocol: str) -> Cell:
    found = measurement(workshop.plan().cells[0], protocol).relations["other"]
    assert isinstance(found, Cell)
    return found


def answers(workshop: Any, protocol: str, task: str = "parity8") -> dict[str, Any]:
    (result,) = [each for each in read_results(workshop.out) if (each.protocol, each.cell.task) == (protocol, task)]
    return {metric.metric: metric.reason if metric.value is None else metric.value for metric in result.metrics}


def finished(workshop: Any, listen: Callable[[Any], None] = id) -> Any:
    plan, store = workshop.plan(), Store(workshop.out)
    store.prepare()
    return run(plan, find_pending(plan, store), store, Settings(workshop.out), workers=1, listen=listen)


def undisturbed(workshop: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    out, workshop.out = workshop.out, workshop.root / "undisturbed"
    assert finished(workshop).failed == ()
    expected = workshop.results(), workshop.cells()
    workshop.out = out
    return expected


# What is planned


def test_identities_of_cells_and_measurements_without_relations_are_what_they_were() -> None:
    model, task = ReferenceModel.model_validate(MODEL), TaskSpec.model_validate(TASK)
    metrics = {"accuracy": {"title": "a", "unit": "share", "direction": "higher"}}
    spec = {"kind": "protocol", "name": "p", "title": "p", "measures": "behaviour", "params": {}, "metrics": metrics}
    protocol, versions = ProtocolSpec.model_validate(spec), {"protocol": 1}
    cell = cell_identity(model, task, model.training.resolve(task.name), 0, {"adapter": 1})
    assert cell == "32dd3ca2c3d784cebeb96487"
    assert measurement_identity(cell, task, protocol, Gate(), versions, model=model) == "09c4d4db56a316d22ea63b43"
    assert (
        measurement_identity(cell, task, protocol, Gate(), versions, model=model, related={})
        == "09c4d4db56a316d22ea63b43"
    )
    assert (
        measurement_identity(cell, task, protocol, Gate(), versions, model=model, related={"other": "x"})
        != "09c4d4db56a316d22ea63b43"
    )


def test_related_cells_are_planned_beside_the_suites_own(pair: Any) -> None:
    plan = pair.plan()
    first, second = plan.cells
    assert related(pair, "across").identity == second.identity
    twin = related(pair, "twin")
    assert (twin.without, twin.task.name, twin.measurements) == (("mixer", "zero"), "parity8", ())
    assert twin.key.without == "mixer/zero"
    assert twin.identity not in (first.identity, second.identity)
    assert [cell.identity for cell in suite_record(plan).cells] == [first.identity, second.identity]
    assert measurement(second, "across").relations == {}
    assert first.gate_result == measurement(first, "behaviour").identity


def test_filters_change_no_identity(pair: Any) -> None:
    whole = {each.identity for cell in pair.plan().cells for each in cell.measurements}
    for filters in ({"tasks": ["parity8"]}, {"protocols": ["across", "twin"]}, {"tasks": ["second"]}):
        narrowed = {each.identity for cell in pair.plan(**filters).cells for each in cell.measurements}
        assert narrowed < whole


CHANGES: dict[str, tuple[str, Callable[[Any], object]]] = {
    "data of the related task": ("across", lambda w: w.spec("second", TASK, name="second", sizes={"evaluate": 41})),
    "training of the related task": (
        "across",
        lambda w: w.model(training={"per_task": {"second": {"learning_rate": 0.02}}}),
    ),
    "mode": ("twin", lambda w: relating(w, "twin", component="mixer", mode="bypass")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_measurement_depends_on_the_cells_that_it_needs(pair: Any, change: str) -> None:
    protocol, make = CHANGES[change]
    before = pair.plan().cells[0]
    make(pair)
    after = pair.plan().cells[0]
    assert measurement(after, protocol).identity != measurement(before, protocol).identity
    assert measurement(after, "behaviour").identity == measurement(before, "behaviour").identity


def test_what_a_component_is_trains_a_cell_without_it_and_no_other(workshop: Any) -> None:
    def planned(modes: list[str]) -> tuple[str, str]:
        workshop.user_model(components={"mixer": {"pattern": "layers.*", "modes": modes}})
        workshop.suite(models=["./mine.yaml"], protocols=["behaviour", relating(workshop, "twin", component="mixer")])
        return workshop.plan().cells[0].identity, related(workshop, "twin").identity

    (cell, twin), (same_cell, other_twin) = planned(["zero"]), planned(["zero", "bypass"])
    assert cell == same_cell
    assert twin != other_twin


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        ("['other']", "must return a mapping, not a list"),
        ("{'other': 'second'}", "not 'other' to a str"),
        ("{'other': Relation()}", "must have either a task or a without"),
        ("1 / 0", "asking for its relations on parity8 failed: ZeroDivisionError"),
    ],
)
def test_relations_that_make_no_sense_are_errors_of_the_protocol(workshop: Any, returns: str, message: str) -> None:
    reference = relating(workshop, "across", task="second")
    code = (workshop.root / "across.py").read_text()
    (workshop.root / "across.py").write_text(code + f"\n\ndef relations(task, params):\n    return {returns}\n")
    workshop.suite(protocols=["behaviour", reference])
    with pytest.raises(Exception, match=message):
        workshop.plan()


def test_the_gate_needs_no_other_cells(pair: Any) -> None:
    pair.suite(protocols=["./across.yaml"], gate={"metric": "across.answer"}, headline="across.answer")
    with pytest.raises(SpecError, match="gives the gate's metric and needs other cells"):
        pair.plan()


# What is run


def test_related_cells_are_trained_on_demand_and_then_there_is_nothing_to_do(pair: Any) -> None:
    done = pair.run()
    assert done.exit_code == 0, done.stderr
    cells = {record.cell.identity: record for record in read_cells(pair.out)}
    assert sorted((record.cell.task, record.cell.without) for record in cells.values() if record.cell.without) == [
        ("parity8", "mixer/zero"),
        ("second", "mixer/zero"),
    ]
    assert len(cells) == 4
    results = {(each.protocol, each.cell.task): each for each in read_results(pair.out)}
    assert len(results) == 6
    across, twin = results["across", "parity8"], results["twin", "parity8"]
    assert across.related == {"other": related(pair, "across").identity}
    assert twin.related == {"other": related(pair, "twin").identity}
    assert results["behaviour", "parity8"].related == results["across", "second"].related == {}
    assert answers(pair, "across", "second") == {"answer": "measured on parity8"}
    assert set(across.digests) == {"evaluate/8", "second:evaluate/8"}
    assert set(twin.digests) == {"evaluate/8"}
    for result in results.values():
        assert 0 <= result.shared_seconds <= result.forward_seconds <= result.seconds + result.shared_seconds
    assert across.forward_seconds > 0
    again = pair.run()
    assert "Nothing to do" in again.stdout
    assert pair.run("--protocol", "twin").exit_code == 0
    assert {path.stem for path in (pair.out / "results").iterdir()} == {each.identity for each in results.values()}


def test_what_a_protocol_learns_of_the_other_cell_is_true(pair: Any) -> None:
    finished(pair)
    cells = {record.cell.identity: record for record in read_cells(pair.out)}
    own = cells[pair.plan().cells[0].identity]
    for protocol in ("across", "twin"):
        other = cells[related(pair, protocol).identity]
        found = answers(pair, protocol)
        assert found["answer"] == pytest.approx(other.clean_accuracy - own.clean_accuracy, abs=1e-12)
        called = "second" if protocol == "across" else "parity8 without mixer/zero"
        assert found["verdict"] == f"{called} {other.clean_accuracy:.3f} below 0.95"
        assert found["same"] == "True"
    assert backend_of(own).startswith(f"torch {own.provenance.torch}, cpu, 1 thread, ")


@pytest.mark.parametrize("options", [[], ["--protocol", "across"]])
def test_the_gate_of_a_related_cell_is_read_or_measured(pair: Any, options: list[str]) -> None:
    tasks, protocols = ["./parity8.yaml", "./second.yaml"], ["behaviour", "./across.yaml"]
    pair.suite(protocols=protocols, tasks=tasks, gate={"at_least": 0.1})
    assert pair.run(*options).exit_code == 0
    assert answers(pair, "across")["verdict"] == "passed"


def test_a_twin_is_the_model_trained_with_the_component_ablated(pair: Any) -> None:
    finished(pair)
    twin = related(pair, "twin")
    task = load_task_of(twin.task)
    with one_thread():
        initial, by_hand, found = (build_model(twin.model, twin.task, task, twin.seed, "cpu") for _ in range(3))
        with by_hand.ablate("mixer", "zero"):
            train(
                by_hand,
                make_stages(task, twin.task_spec, twin.training, twin.task.base),
                twin.training,
                twin.seed,
                state=pair.root / "state",
                on_step=lambda *_: None,
                should_stop=lambda: False,
                tell=lambda _: None,
            )
    load_weights(found, Store(pair.out).weights_path(twin.identity))
    before, expected, after = (each.module.state_dict() for each in (initial, by_hand, found))
    assert any(".mixer." in name for name in after)
    for name, value in after.items():
        assert torch.equal(value, expected[name])
        assert torch.equal(value, before[name]) == name.startswith("blocks."), name  # the blocks do nothing
    record = Store(pair.out).read_cell(twin.identity)
    assert record is not None
    data = _data(twin)
    with found.ablate("mixer", "zero"):
        right = found.logits(data[0]).argmax(-1) == data[1]
    assert record.clean_accuracy == pytest.approx(float(right.mean()), abs=1e-12)


def _data(cell: Cell) -> tuple[Any, Any]:
    from layerstate.tasks import draw

    task, spec = load_task_of(cell.task), cell.task_spec
    batch = draw(task, "evaluate", spec.sizes.evaluate, spec.lengths.train, seed=0)
    return batch.tokens, batch.states[task.target]


@pytest.mark.parametrize(
    ("name", "params", "reason"),
    [
        ("across", {"task": "dyck"}, "no_task: dyck is not a task of the suite"),
        ("twin", {"component": "conv1d"}, "no_component: the model declares mixer"),
        ("twin", {"component": "mixer", "mode": "half"}, "no_component: the model declares mixer with zero, and not"),
    ],
)
def test_what_cannot_be_is_a_reason_and_trains_nothing(
    workshop: Any, name: str, params: dict[str, str], reason: str
) -> None:
    workshop.suite(protocols=["behaviour", relating(workshop, name, **params)])
    assert finished(workshop).failed == ()
    assert answers(workshop, name)["answer"].startswith(reason)
    assert len(read_cells(workshop.out)) == 1
    (result,) = [each for each in read_results(workshop.out) if each.protocol == name]
    assert result.related == {}


def test_what_a_filter_leaves_out_is_waited_for(pair: Any) -> None:
    line = "across of tiny on parity8, seed 0, waits for tiny on second: run without --task, or run those first"
    first = pair.run("--task", "parity8")
    assert first.exit_code == 0
    assert line in first.stdout
    assert {each.protocol for each in read_results(pair.out)} == {"behaviour", "twin"}
    assert pair.failures() == []
    again = pair.run("--task", "parity8")
    assert "Nothing to do" in again.stdout
    assert "complete" not in again.stdout
    assert line in again.stdout
    shown = pair.layerstate("plan", pair.root / "suite.yaml", "--out", pair.out, "--task", "parity8")
    assert line in shown.stdout
    assert "across (waits)" in shown.stdout
    assert "2 done" in shown.stdout
    assert "0 to do; 1 waiting" in shown.stdout
    assert pair.run("--task", "second").exit_code == 0
    last = pair.run("--task", "parity8")
    assert last.exit_code == 0
    assert line not in last.stdout
    assert answers(pair, "across")["same"] == "True"


def test_waiting_seeds_stand_in_one_line(pair: Any) -> None:
    pair.suite(tasks=["./parity8.yaml", "./second.yaml"], protocols=["./across.yaml", "behaviour"], seeds=[0, 1, 2])
    waiting = find_waiting(pair.plan(tasks=["parity8"]), Store(pair.out))
    assert [one.cell.seed for one in waiting] == [0, 1, 2]
    shown = pair.layerstate("plan", pair.root / "suite.yaml", "--out", pair.out, "--task", "parity8")
    assert shown.stdout.count("waits for") == 1
    assert "seeds 0, 1 and 2, waits" in shown.stdout
    assert find_waiting(pair.plan(), Store(pair.out)) == []


def test_a_twin_counts_as_a_training_in_the_estimate(pair: Any) -> None:
    finished(pair)
    store, plan = Store(pair.out), pair.plan()
    twin = related(pair, "twin")
    measurements = measurement(plan.cells[0], "twin")
    store.result_path(measurements.identity).unlink()
    (pending,) = find_pending(plan, store)
    assert pending.twins == ()
    cheap = Estimator.of(store).seconds(pending)
    trained = store.read_cell(twin.identity)
    assert trained is not None
    assert cheap is not None
    estimator = Estimator.of(store)
    (store.cell_folder(twin.identity) / "cell.json").unlink()
    (pending,) = find_pending(plan, store)
    assert [each.identity for each in pending.twins] == [twin.identity]
    assert estimator.seconds(pending) == pytest.approx(cheap + trained.seconds)
    assert estimator.longest_first([pending]) == [pending]


# What goes wrong


def test_a_related_cell_that_cannot_be_trained_costs_only_what_needs_it(pair: Any) -> None:
    flag = pair.root / "broken"
    forward = "        hidden = self.embed(tokens)\n"
    breaks = (
        f"        if self.training and tokens.shape[1] == 6 and __import__('os').path.exists({str(flag)!r}):\n"
        "            raise RuntimeError('broken')\n"
    )
    pair.user_model(USER_CODE.replace(forward, breaks + forward))
    pair.spec("second", TASK, name="second", lengths={"train": 6, "evaluate": [6]})
    tasks = ["./parity8.yaml", "./second.yaml"]
    pair.suite(models=["./mine.yaml"], tasks=tasks, protocols=["behaviour", "./across.yaml"])
    flag.touch()
    done = pair.run()
    assert done.exit_code == 3, done.stderr
    assert {(each.protocol, each.cell.task) for each in read_results(pair.out)} == {("behaviour", "parity8")}
    (failure,) = [each for each in pair.failures() if each["stage"] == "measuring"]
    assert failure["protocol"] == "across"
    assert failure["message"].startswith("mine · second · seed 0, which it needs: ")
    assert "mine.py:15: " in failure["message"]
    assert failure["message"].endswith("RuntimeError: broken")
    flag.unlink()
    assert pair.run().exit_code == 0
    assert pair.failures() == []
    assert answers(pair, "across")["same"] == "True"


def test_a_component_that_never_runs_fails_before_the_training(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from layerstate.adapters.base import EditNeverFired
    from layerstate.adapters.module import ModuleAdapter

    whole = ModuleAdapter.ablate

    def never(self: Any, component: str, mode: str) -> Any:
        context = whole(self, component, mode)

        class Silent:
            def __enter__(self) -> Any:
                return context.__enter__()

            def __exit__(self, kind: Any, *error: Any) -> Any:
                context.__exit__(kind, *error)
                if kind is None:
                    raise EditNeverFired("mixer was never run")

        return Silent()

    workshop.suite(protocols=["behaviour", relating(workshop, "twin", component="mixer")])
    monkeypatch.setattr("layerstate.suite.runner.making.Maker.expect_conforming", lambda *_: None)
    monkeypatch.setattr(ModuleAdapter, "ablate", never)
    steps: list[Any] = []
    summary = finished(workshop, lambda event: steps.append(event) if type(event).__name__ == "Stepped" else None)
    (failed,) = summary.failed
    assert [failure.protocol for failure in failed.failures] == ["twin"]
    assert "mixer was never run" in failed.failures[0].message
    assert len(steps) == MODEL["training"]["steps"]
    assert [each.protocol for each in read_results(workshop.out)] == ["behaviour"]


def test_killed_in_the_training_of_a_twin_it_goes_on_from_there(pair: Any) -> None:
    pair.model(training={"steps": 60})
    expected = undisturbed(pair)
    twin = related(pair, "twin")
    state = Store(pair.out).state_path(twin.identity)
    plan, store = pair.plan(), Store(pair.out)
    store.prepare()
    arguments = (plan, find_pending(plan, store), store, Settings(pair.out, save_every=0.0))
    process = FORKED.Process(target=run, args=arguments, kwargs={"workers": 1, "listen": id})
    process.start()
    deadline = time.monotonic() + PATIENCE
    while not state.exists():
        assert process.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.join()
    assert twin.identity not in pair.cells()
    heard: list[Any] = []
    assert finished(pair, heard.append).failed == ()
    start = next(i for i, e in enumerate(heard) if isinstance(e, CellStarted) and e.cell.without is not None)
    assert next(event.step for event in heard[start:] if type(event).__name__ == "Stepped") > 1
    assert (pair.results(), pair.cells()) == expected


def test_two_workers_whose_cells_need_each_other_give_what_one_gives(pair: Any) -> None:
    relating(pair, "across", task="second", back=True)
    pair.suite(
        tasks=["./parity8.yaml", "./second.yaml"], protocols=["behaviour", "./across.yaml", "./twin.yaml"], seeds=[0, 1]
    )
    expected = undisturbed(pair)
    done = pair.run("--workers", 2)
    assert done.exit_code == 0, done.stderr
    assert (pair.results(), pair.cells()) == expected


def test_while_others_train_what_it_needs_a_cell_is_left_and_asked_for_again(
    pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerstate.suite.runner.executors._RETRY_SECONDS", 0.02)
    log = pair.root / "log"
    pair.protocol(f"open({str(log)!r}, 'a').write('x'); raise ValueError('broken')")
    pair.suite(
        protocols=["behaviour", "./mine_protocol.yaml", "./across.yaml"], tasks=["./parity8.yaml", "./second.yaml"]
    )
    plan, store = pair.plan(), Store(pair.out)
    store.prepare()
    first = plan.cells[0]
    other = related(pair, "across")
    heard: list[Any] = []
    worker = threading.Thread(target=InProcess(Settings(pair.out)).run, args=([first], heard.append))

    def waits() -> list[Any]:
        return [event for event in heard if isinstance(event, CellWaits)]

    # Signals are for the main thread; this one is none.
    monkeypatch.setattr("layerstate.suite.runner.interrupt.signal.signal", lambda *_: None)
    with store.lock(other.identity) as held:
        assert held
        worker.start()
        deadline = time.monotonic() + PATIENCE
        while len(waits()) < 3:
            assert time.monotonic() < deadline
            assert worker.is_alive()
            time.sleep(0.01)
        assert {each.needs for each in waits()} == {other.key}
        with store.lock(first.identity) as free:
            assert free  # what waits holds nothing
        assert store.read_result(measurement(first, "behaviour").identity) is not None
        assert store.read_result(measurement(first, "across").identity) is None
        assert store.read_cell(other.identity) is None
    worker.join(PATIENCE)
    assert store.read_result(measurement(first, "across").identity) is not None
    (ended,) = [event for event in heard if isinstance(event, CellEnded)]
    assert [failure.protocol for failure in ended.failures] == ["mine"]
    assert log.read_text() == "x"  # what failed is not tried again while it waits
    assert [failure["protocol"] for failure in pair.failures()] == ["mine"]


def test_a_protocol_that_asks_for_what_it_did_not_declare_is_told_so(pair: Any) -> None:
    relating(pair, "twin", body="cell.related('another')", component="mixer")
    pair.suite(protocols=["behaviour", "./twin.yaml"])
    assert pair.run().exit_code == 3
    (failure,) = pair.failures()
    assert failure["message"] == "The protocol asks for the related cell 'another' and declares other."


def test_relating_a_cell_to_itself_gives_that_cell(workshop: Any) -> None:
    workshop.suite(protocols=["behaviour", relating(workshop, "across", task="parity8")])
    assert finished(workshop).failed == ()
    assert answers(workshop, "across")["answer"] == 0.0
    assert len(read_cells(workshop.out)) == 1
