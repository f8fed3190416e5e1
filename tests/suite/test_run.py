"""Running a tiny suite in this process: results, gate, failures that stay where they are, and nothing done twice."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from layerstate.suite.protocols import Reading
from layerstate.suite.runner.errors import CellFailed
from layerstate.suite.runner.executors import InProcess
from layerstate.suite.runner.measuring import gate_reading, to_metrics
from layerstate.suite.runner.settings import Settings
from layerstate.suite.runner.store import Store, read_cells, read_results, read_suites
from layerstate.suite.spec.results import GateReading
from layerstate.suite.spec.schema import Gate, ProtocolSpec

SPEC = ProtocolSpec.model_validate(
    {
        "kind": "protocol",
        "name": "p",
        "title": "p",
        "measures": "behaviour",
        "metrics": {
            "drop": {"title": "drop", "unit": "pp", "direction": "none"},
            "accuracy": {"title": "accuracy", "unit": "share", "direction": "higher"},
        },
    }
)
BELOW = GateReading(metric="behaviour.accuracy", at_length=8, at_least=0.95, value=0.5, passed=False)


def test_a_run_leaves_a_suite_a_cell_and_a_result_for_each_protocol(workshop: Any) -> None:
    workshop.suite(protocols=["behaviour", "probe_profile", "causal"])
    done = workshop.run()
    assert done.exit_code == 0, done.stderr
    (suite,), (cell,) = read_suites(workshop.out), read_cells(workshop.out)
    results = {result.protocol: result for result in read_results(workshop.out)}
    assert set(results) == {"behaviour", "probe_profile", "causal"}
    assert {entry["identity"] for entry in suite.measurements} == {result.identity for result in results.values()}
    assert cell.steps == 12
    assert cell.curve.step == [5, 10, 12]
    assert cell.parameters > 0
    for result in results.values():
        assert result.cell == cell.cell
        assert result.sites == ["embed", "block.0", "block.1"]
        assert result.clean_accuracy == cell.clean_accuracy
        assert set(result.chance) == {"8", "12"}
        assert all(0.4 < chance < 0.7 for chance in result.chance.values())
        assert result.provenance.threads == 1
        assert result.metrics
        assert result.digests
    assert set(results["behaviour"].digests) == {"evaluate/8", "evaluate/12", "probe_train/8", "probe_train/12"}
    assert results["behaviour"].arrays["correct/8"].shape == [50]
    assert not (workshop.out / "cells" / cell.cell.identity / "state.safetensors").exists()


def test_all_files_are_strict_json(workshop: Any) -> None:
    assert workshop.run().exit_code == 0

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    files = list(workshop.out.rglob("*.json"))
    assert len(files) == 3
    for path in files:
        json.loads(path.read_text(), parse_constant=refuse)


def test_a_second_run_has_nothing_to_do(workshop: Any) -> None:
    assert workshop.run().exit_code == 0
    before = {path: path.stat().st_mtime_ns for path in (workshop.out / "results").iterdir()}
    again = workshop.run()
    assert again.exit_code == 0
    assert "Nothing to do" in again.stdout
    assert before == {path: path.stat().st_mtime_ns for path in (workshop.out / "results").iterdir()}


def test_the_same_run_in_another_folder_gives_the_same_numbers(workshop: Any) -> None:
    workshop.suite(protocols=["behaviour", "probe_profile"])
    assert workshop.run().exit_code == 0
    first, cells = workshop.results(), workshop.cells()
    workshop.out = workshop.root / "again"
    torch.rand(3)
    np.random.default_rng().random(3)
    assert workshop.run().exit_code == 0
    assert workshop.results() == first
    assert workshop.cells() == cells


def test_protocols_give_the_same_numbers_alone_and_together(workshop: Any) -> None:
    workshop.suite(protocols=["behaviour", "probe_profile", "causal"])
    assert workshop.run().exit_code == 0
    together = workshop.results()
    workshop.out = workshop.root / "alone"
    for protocol in ("causal", "probe_profile", "behaviour"):
        assert workshop.run("--protocol", protocol).exit_code == 0
    assert workshop.results() == together


def test_a_missing_result_is_measured_again_without_training(workshop: Any) -> None:
    assert workshop.run().exit_code == 0
    (path,) = (workshop.out / "results").iterdir()
    (weights,) = workshop.out.glob("cells/*/weights.safetensors")
    expected, before = workshop.results(), weights.stat().st_mtime_ns
    path.unlink()
    assert workshop.run().exit_code == 0
    assert workshop.results() == expected
    assert weights.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("damaged", "how"),
    [("results/*.json", "truncated"), ("cells/*/cell.json", "empty"), ("cells/*/weights.safetensors", "truncated")],
)
def test_a_damaged_file_is_set_aside_and_made_again(workshop: Any, damaged: str, how: str) -> None:
    assert workshop.run().exit_code == 0
    expected, cells = workshop.results(), workshop.cells()
    (path,) = workshop.out.glob(damaged)
    path.write_bytes(b"" if how == "empty" else path.read_bytes()[: path.stat().st_size // 2])
    if "cells" in damaged:
        next(workshop.out.glob("results/*.json")).unlink()
    again = workshop.run()
    assert again.exit_code == 0, again.stderr
    assert path.with_name(f"{path.name}.corrupt-1").exists()
    assert "is damaged" in again.stderr
    assert workshop.results() == expected
    assert workshop.cells() == cells


def test_below_the_gate_mechanistic_metrics_say_so_and_keep_their_values(workshop: Any) -> None:
    workshop.suite(protocols=["behaviour", "causal"], gate={"at_least": 1.0})
    done = workshop.run()
    assert done.exit_code == 0
    results = {result.protocol: result for result in read_results(workshop.out)}
    assert not results["causal"].gate.passed
    assert {metric.status for metric in results["behaviour"].metrics} <= {"ok", "undefined"}
    drops = [metric for metric in results["causal"].metrics if metric.metric == "drop"]
    assert {metric.status for metric in drops} == {"below_gate"}
    assert all(isinstance(metric.value, float) for metric in drops)
    assert "below 1" in str(drops[0].reason)
    assert "below_gate" in done.stdout


def test_above_the_gate_they_are_ok(workshop: Any) -> None:
    workshop.suite(protocols=["behaviour", "causal"], gate={"at_least": 0.1})
    assert workshop.run().exit_code == 0
    causal = next(result for result in read_results(workshop.out) if result.protocol == "causal")
    assert causal.gate.passed
    assert "below_gate" not in {metric.status for metric in causal.metrics}


def test_one_protocols_failure_ends_no_other_and_is_tried_again(workshop: Any) -> None:
    flag = workshop.root / "broken"
    flag.touch()
    workshop.protocol(f"import pathlib; assert not pathlib.Path({str(flag)!r}).exists(), 'no such luck'")
    workshop.suite(protocols=["./mine_protocol.yaml", "behaviour"])
    done = workshop.run()
    assert done.exit_code == 3
    assert "no such luck" in done.stderr
    assert "Traceback" not in done.stderr
    (failure,) = workshop.failures()
    assert (failure["stage"], failure["protocol"]) == ("measuring", "mine")
    assert [result.protocol for result in read_results(workshop.out)] == ["behaviour"]
    assert "no such luck" in workshop.layerstate("report", workshop.out).stdout
    flag.unlink()
    again = workshop.run()
    assert again.exit_code == 0
    assert workshop.failures() == []
    assert {result.protocol for result in read_results(workshop.out)} == {"behaviour", "mine"}


def test_a_users_code_that_calls_exit_fails_its_cell_and_not_the_run(workshop: Any) -> None:
    workshop.protocol("raise SystemExit(7)")
    workshop.suite(protocols=["./mine_protocol.yaml", "behaviour"])
    assert workshop.run().exit_code == 3
    assert [result.protocol for result in read_results(workshop.out)] == ["behaviour"]
    assert "SystemExit: 7" in workshop.failures()[0]["message"]


def test_debug_shows_the_traceback_of_a_failure(workshop: Any) -> None:
    workshop.protocol("raise KeyError('deep down')")
    workshop.suite(protocols=["./mine_protocol.yaml"], headline="mine.answer", gate={"metric": "mine.answer"})
    from layerstate.suite.cli import debug

    debug.set_debugging()
    try:
        done = workshop.run()
    finally:
        debug._state["on"] = False  # pyright: ignore[reportPrivateUsage]
    assert "Traceback (most recent call last)" in done.stderr
    assert "mine_protocol.py" in done.stderr


def test_one_cells_failure_ends_no_other(workshop: Any) -> None:
    workshop.user_model(code="import torch\n\ndef build(vocab_size, classes):\n    raise RuntimeError('not today')\n")
    workshop.suite(models=["./mine.yaml", "./tiny.yaml"])
    done = workshop.run()
    assert done.exit_code == 3
    assert "not today" in done.stderr
    assert [result.cell.model for result in read_results(workshop.out)] == ["tiny"]
    assert "failed" in done.stdout


def test_where_the_gates_protocol_fails_nothing_mechanistic_is_written(workshop: Any) -> None:
    workshop.protocol("raise ValueError('no gate today')")
    workshop.suite(protocols=["./mine_protocol.yaml", "causal"], headline="mine.answer", gate={"metric": "mine.answer"})
    assert workshop.run().exit_code == 3
    assert len(workshop.failures()) == 2
    assert read_results(workshop.out) == []


def test_a_model_that_looks_ahead_is_refused_with_the_site(workshop: Any) -> None:
    code = (
        "import torch\nfrom torch import nn\nclass Block(nn.Module):\n"
        "    def forward(self, x):\n        return x + x.mean(1, keepdim=True)\n"
        "class M(nn.Module):\n    def __init__(self, v, c):\n        super().__init__()\n"
        "        self.embed = nn.Embedding(v, 8)\n        self.layers = nn.ModuleList([Block()])\n"
        "        self.head = nn.Linear(8, c)\n"
        "    def forward(self, t):\n        return self.head(self.layers[0](self.embed(t)))\n"
        "def build(v, c):\n    return M(v, c)\n"
    )
    workshop.user_model(code, sites={"output": None})
    done = workshop.run("--model", workshop.root / "mine.yaml")
    assert done.exit_code == 3
    (failure,) = workshop.failures()
    assert failure["stage"] == "conformance"
    assert "causal failed at block.0" in failure["message"]
    assert not list(workshop.out.glob("cells/*/weights.safetensors"))


def test_a_model_whose_loss_is_nan_says_at_which_step(workshop: Any) -> None:
    code = (workshop.user_model().parent / "mine.py").read_text()
    # Right in evaluation, NaN from the third training step on.
    code = code.replace("        return self.head(hidden)", "        return self.spoil(self.head(hidden))").replace(
        "    def forward",
        "    calls = 0\n\n    def spoil(self, logits):\n        self.calls += self.training\n"
        "        return logits * float('nan') if self.training and self.calls > 2 else logits\n\n    def forward",
    )
    workshop.user_model(code)
    done = workshop.run("--model", workshop.root / "mine.yaml")
    assert done.exit_code == 3
    (failure,) = workshop.failures()
    assert "loss became nan at step 3 of 12 (learning rate 0.01)" in failure["message"]


def test_a_users_model_in_another_folder_runs_end_to_end_and_is_reported(workshop: Any) -> None:
    path = workshop.user_model(folder="elsewhere")
    workshop.suite(protocols=["behaviour", "probe_profile", "causal"])
    done = workshop.run("--model", path)
    assert done.exit_code == 0, done.stderr
    assert "mine" in done.stdout
    report = workshop.layerstate("report", workshop.out, "--format", "json")
    (suite,) = json.loads(report.stdout)["suites"]
    assert [row["model"] for row in suite["rows"]] == ["mine"]
    assert suite["rows"][0]["metrics"]["accuracy"]["value"] is not None


def test_an_edited_module_is_trained_anew_and_counts_once(workshop: Any) -> None:
    path = workshop.user_model()
    assert workshop.run("--model", path).exit_code == 0
    code = (workshop.root / "mine.py").read_text()
    workshop.user_model(code.replace("batch_first=True", "batch_first=True, bias=False"))
    assert workshop.run("--model", path).exit_code == 0
    assert len(workshop.cells()) == 2
    report = json.loads(workshop.layerstate("report", workshop.out, "--format", "json").stdout)
    assert report["suites"][0]["rows"][0]["metrics"]["accuracy"]["n"] == 1


def test_sites_that_change_after_training_are_checked_before_anything_is_measured_there(workshop: Any) -> None:
    code = (workshop.user_model().parent / "mine.py").read_text()
    code = code.replace("return self.head(hidden)", "self.idle(hidden)\n        return self.head(hidden)").replace(
        "        self.head =", "        self.idle = nn.Linear(8, 8)\n        self.head ="
    )
    path = workshop.user_model(code)
    assert workshop.run("--model", path).exit_code == 0
    workshop.user_model(code, sites={"blocks": ["layers.0", "layers.1", "idle"], "output": 0})
    before = workshop.results()
    done = workshop.run("--model", path)
    assert done.exit_code == 3
    (failure,) = workshop.failures()
    assert failure["stage"] == "conformance"
    assert workshop.results() == before


def test_models_run_one_after_the_other_stand_in_one_table(workshop: Any) -> None:
    assert workshop.run().exit_code == 0
    assert workshop.run("--model", workshop.user_model()).exit_code == 0
    report = json.loads(workshop.layerstate("report", workshop.out, "--format", "json").stdout)
    assert [row["model"] for row in report["suites"][0]["rows"]] == ["tiny", "mine"]


def test_two_suites_in_one_folder_are_both_kept_and_share_what_they_can(workshop: Any) -> None:
    assert workshop.run().exit_code == 0
    (weights,) = workshop.out.glob("cells/*/weights.safetensors")
    before = weights.stat().st_mtime_ns
    workshop.suite(name="another_suite", gate={"at_least": 0.3})
    assert workshop.run().exit_code == 0
    assert weights.stat().st_mtime_ns == before
    assert [record.suite["name"] for record in read_suites(workshop.out)] == ["another_suite", "tiny_suite"]
    report = workshop.layerstate("report", workshop.out).stdout
    assert "another_suite" in report
    assert "tiny_suite" in report


def test_the_callers_threads_are_restored(workshop: Any) -> None:
    torch.set_num_threads(2)
    try:
        assert workshop.run().exit_code == 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_a_cell_that_another_run_holds_is_waited_for_and_not_trained_twice(workshop: Any) -> None:
    plan, store = workshop.plan(), Store(workshop.out)
    store.prepare()
    (cell,) = plan.cells
    events: list[str] = []

    def hear(event: object) -> None:
        events.append(type(event).__name__)

    settings = Settings(workshop.out)
    with store.lock(cell.identity) as held:
        assert held
        second = threading.Thread(target=InProcess(settings).run, args=([cell], hear))
        second.start()
        deadline = time.monotonic() + 60
        while "CellWaits" not in events and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "CellStarted" not in events
        assert not store.result_path(cell.measurements[0].identity).exists()
    second.join(60)
    assert events.count("CellEnded") == 1
    assert store.read_result(cell.measurements[0].identity) is not None


def test_the_same_cell_asked_for_after_another_run_completed_it_is_only_read(workshop: Any) -> None:
    plan, store = workshop.plan(), Store(workshop.out)
    assert workshop.run().exit_code == 0
    before = store.result_path(plan.cells[0].measurements[0].identity).stat().st_mtime_ns
    events: list[str] = []
    InProcess(Settings(workshop.out)).run(plan.cells, lambda event: events.append(type(event).__name__))
    assert events == ["CellStarted", "CellEnded"]
    assert store.result_path(plan.cells[0].measurements[0].identity).stat().st_mtime_ns == before


def test_readings_get_unit_and_direction_from_the_yaml() -> None:
    (metric,) = to_metrics([Reading("drop", np.float32(0.0), {"site": "embed", "rank": np.int64(2)})], SPEC, None)
    assert (metric.value, metric.unit, metric.direction, metric.status) == (0.0, "pp", "none", "ok")
    assert type(metric.value) is float
    assert metric.at == {"site": "embed", "rank": 2}
    assert type(metric.at["rank"]) is int


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), np.float64("nan")])
def test_a_missing_number_is_null_with_a_reason(value: float | None) -> None:
    (metric,) = to_metrics([Reading("drop", value, low=float("nan"), high=float("-inf"))], SPEC, None)
    assert (metric.value, metric.low, metric.high, metric.status) == (None, None, None, "undefined")
    assert metric.reason


def test_below_the_gate_hides_every_number_keeps_a_true_zero_and_says_what_else_is_wrong() -> None:
    zero, converged, missing = to_metrics(
        [
            Reading("drop", 0.0),
            Reading("accuracy", 0.5, status="not_converged", reason="slow"),
            Reading("drop", None, {"site": "embed"}, status="undefined", reason="no_causal_site"),
        ],
        SPEC,
        BELOW,
    )
    assert (zero.value, zero.status) == (0.0, "below_gate")
    assert converged.status == "below_gate"
    assert "also not_converged" in (converged.reason or "")
    assert (missing.status, missing.reason) == ("undefined", "no_causal_site")


def test_a_metric_that_the_yaml_does_not_declare_is_an_error() -> None:
    with pytest.raises(CellFailed, match=r"'effect'.*declares only drop, accuracy"):
        to_metrics([Reading("effect", 1.0)], SPEC, None)


def test_one_metric_twice_at_one_place_is_an_error() -> None:
    with pytest.raises(CellFailed, match="twice"):
        to_metrics([Reading("drop", 1.0, {"site": "embed"}), Reading("drop", 2.0, {"site": "embed"})], SPEC, None)


def test_the_gate_reads_its_length_and_passes_at_its_own_value() -> None:
    readings = [Reading("accuracy", 0.95, {"length": 8}), Reading("accuracy", 0.1, {"length": 12})]
    assert gate_reading(Gate(), 8, readings).passed
    assert not gate_reading(Gate(), 12, readings).passed
    assert not gate_reading(Gate(), 8, [Reading("accuracy", None, {"length": 8})]).passed
    with pytest.raises(CellFailed, match="gives 0 of these"):
        gate_reading(Gate(), 16, readings)


def test_out_that_is_a_file_is_told_before_anything_is_computed(workshop: Any) -> None:
    workshop.out.write_text("mine")
    done = workshop.run()
    assert done.exit_code == 2
    assert "is a file" in done.stderr
    assert workshop.out.read_text() == "mine"


def test_a_full_disk_stops_the_run_in_words(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    from layerstate.suite.runner import store

    def full(path: Path, _data: bytes) -> None:
        raise store.translated(OSError(errno.ENOSPC, "No space left on device"), path)

    workshop.suite(seeds=[0, 1])
    assert workshop.run("--seed", 0).exit_code == 0
    kept = workshop.results()
    original = store.write_atomic

    def write(path: Path, data: bytes) -> None:
        (full if path.suffix == ".json" and path.parent.name == "results" else original)(path, data)

    monkeypatch.setattr(store, "write_atomic", write)
    done = workshop.run()
    assert done.exit_code == 3
    assert "full" in done.stderr
    assert "Traceback" not in done.stderr
    assert workshop.results() == kept
    monkeypatch.undo()
    assert workshop.run().exit_code == 0
