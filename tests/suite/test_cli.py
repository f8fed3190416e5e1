"""The command line: every option arrives, every mistake gets words and its exit code, every format is what it says."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from layerstate.suite.runner import run as running
from layerstate.suite.runner.settings import Settings
from layerstate.suite.spec.load import KINDS, builtin_names, load_spec


def in_a_process(*arguments: object, blocked: str = "") -> subprocess.CompletedProcess[str]:
    """The command in a process of its own that fails if it imports one of the comma-separated `blocked` modules."""
    code = (
        "import sys\nfrom layerstate.suite.cli import main\n"
        f"for name in {blocked!r}.split(','):\n    sys.modules[name] = None\n"
        f"main({[str(argument) for argument in arguments]!r})\n"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_and_list_import_neither_torch_nor_anything_else_that_is_slow() -> None:
    for verb in (["--help"], ["run", "--help"], ["list"], ["--version"]):
        done = in_a_process(*verb, blocked="torch,sklearn,scipy,numba,altair,pandas")
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_every_verb_explains_itself(workshop: Any) -> None:
    top = workshop.layerstate("--help").stdout
    verbs = re.findall(r"^  ([a-z]+)  ", top.partition("Commands:")[2], re.MULTILINE)
    assert set(verbs) >= {"list", "show", "validate", "check", "plan", "run", "report", "leaderboard", "data"}
    for verb in verbs:
        assert workshop.layerstate(verb, "--help").exit_code == 0


def test_the_version_is_the_packages(workshop: Any) -> None:
    from layerstate import __version__

    assert workshop.layerstate("--version").stdout == f"layerstate {__version__}\n"


def test_list_names_everything_that_is_built_in(workshop: Any) -> None:
    text = workshop.layerstate("list").stdout
    for kind in KINDS:
        for name in builtin_names(kind):
            assert re.search(rf"^\s+{re.escape(name)}  ", text, re.MULTILINE), name
    models = workshop.layerstate("list", "models").stdout
    assert re.search(r"^lstm  ", models, re.MULTILINE)
    assert "parity" not in models


@pytest.mark.parametrize("name", ["parity", "mamba_no_conv1d", "causal"])
def test_show_prints_yaml_that_loads_to_the_same_spec(workshop: Any, name: str) -> None:
    done = workshop.layerstate("show", name)
    assert done.exit_code == 0
    path = workshop.root / "shown.yaml"
    path.write_text(done.stdout)
    again = workshop.layerstate("show", path)
    assert done.stdout.splitlines()[1].startswith("# identity ")
    assert again.stdout.splitlines()[1:] == done.stdout.splitlines()[1:]
    assert load_spec(path).name == name


def test_show_gives_a_suite_the_identity_of_its_record(workshop: Any) -> None:
    shown = workshop.layerstate("show", workshop.root / "suite.yaml").stdout
    assert workshop.run().exit_code == 0
    (record,) = (workshop.out / "suites").glob("*.json")
    assert f"# identity {json.loads(record.read_text())['identity']}" in shown


UNKNOWN = [
    (["show", "parrity"], "did you mean `parity`?"),
    (["run", "quik"], "did you mean `quick`?"),
    (["plan", "quick", "--model", "mambo"], "did you mean `mamba`?"),
    (["plan", "quick", "--task", "dick"], "did you mean `dyck`?"),
    (["plan", "quick", "--protocol", "casual"], "did you mean `causal`?"),
    (["check", "lstn"], "did you mean `lstm`?"),
    (["data", "digest", "pairty"], "did you mean `parity`?"),
    (["check", "./nowhere.yaml"], "nowhere.yaml"),
]


@pytest.mark.parametrize(("arguments", "said"), UNKNOWN)
def test_an_unknown_name_stops_with_a_suggestion(workshop: Any, arguments: list[str], said: str) -> None:
    done = workshop.layerstate(*arguments)
    assert done.exit_code == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not workshop.out.exists()


USAGE = [
    ["run"],
    ["runn", "quick"],
    ["run", "quick", "--workers", "0"],
    ["run", "quick", "--workers", "two"],
    ["run", "quick", "--device", "tpu"],
    ["run", "quick", "--seed", "x"],
    ["run", "quick", "--mdoel", "lstm"],
    ["report", "nowhere"],
    ["report", ".", "--format", "xml"],
    ["list", "things"],
    ["leaderboard", "build", "nowhere", "--out", "site"],
    ["leaderboard", "build", "."],
    ["leaderboard", "build", ".", "--out", ""],
    ["run", "quick", "--out", ""],
    ["plan", "quick", "--out", ""],
    ["validate", ""],
]


@pytest.mark.parametrize("arguments", USAGE)
def test_wrong_usage_is_exit_code_2(workshop: Any, arguments: list[str]) -> None:
    done = workshop.layerstate(*arguments)
    assert done.exit_code == 2
    assert "Usage" in done.stderr


def test_a_negative_seed_is_said_to_be_wrong(workshop: Any) -> None:
    done = workshop.run("--seed", -1)
    assert done.exit_code == 1
    assert "seed -1" in done.stderr


def test_every_option_of_run_arrives(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []

    def fake(plan: Any, pending: Any, store: Any, settings: Settings, *, workers: int, listen: Any) -> running.Summary:
        seen.append((plan, settings, workers))
        store.write_suite(running.suite_record(plan))
        return running.Summary(0, ())

    monkeypatch.setattr(running, "run", fake)
    workshop.suite(models=["./tiny.yaml", "gru", "lstm"], tasks=["./parity8.yaml", "parity", "z3"], seeds=[0, 1, 2])
    models, tasks = ["gru", "tiny"], ["z3", "parity8"]
    out = workshop.root / "elsewhere"
    options = [f"--{kind}={value}" for kind, values in (("model", models), ("task", tasks)) for value in values]
    done = workshop.layerstate(
        *("run", workshop.root / "suite.yaml", *options, "--seed=2", "--seed=1", "--protocol=behaviour"),
        *("--out", out, "--workers", 3, "--device", "cpu"),
    )
    assert done.exit_code == 0, done.stderr
    ((plan, settings, workers),) = seen
    assert {cell.model.name for cell in plan.cells} == set(models)
    assert {cell.task.name for cell in plan.cells} == set(tasks)
    assert {cell.seed for cell in plan.cells} == {1, 2}
    assert {each.protocol.name for cell in plan.cells for each in cell.measurements} == {"behaviour"}
    assert (settings.out, settings.device, settings.debug) == (out, "cpu", False)
    assert workers == 3


def test_the_filters_of_plan_arrive(workshop: Any) -> None:
    workshop.suite(models=["./tiny.yaml", "gru"], tasks=["./parity8.yaml", "parity"], seeds=[0, 1])
    done = workshop.layerstate(
        *("plan", workshop.root / "suite.yaml", "--model=gru", "--task=parity", "--seed=1", "--out", workshop.out)
    )
    assert done.exit_code == 0
    assert re.search(r"^gru +parity +1 .* to train +– +behaviour +unknown$", done.stdout, re.MULTILINE)
    assert "1 cells, 1 measurements: 0 done" in done.stdout
    assert not workshop.out.exists()


def test_plan_shows_what_is_cached_and_how_long_the_rest_takes(workshop: Any) -> None:
    workshop.suite(seeds=[0, 1])
    assert workshop.run("--seed", 0).exit_code == 0
    done = workshop.layerstate("plan", workshop.root / "suite.yaml", "--out", workshop.out, "--workers", 1)
    assert re.search(r"^tiny +parity8 +0 .* done +behaviour +– +–$", done.stdout, re.MULTILINE)
    assert re.search(r"^tiny +parity8 +1 .* to train +– +behaviour +\d+ s$", done.stdout, re.MULTILINE)
    assert "2 cells, 2 measurements: 1 done" in done.stdout
    assert re.search(r"time left with 1 worker: about \d+ s", done.stdout)


def test_out_is_by_default_named_after_the_suite(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workshop.root)
    assert "0 done in runs/tiny_suite" in workshop.layerstate("plan", "./suite.yaml").stdout


def test_cuda_that_is_not_there_is_said_at_once(workshop: Any) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is CUDA here")
    done = workshop.run("--device", "cuda")
    assert done.exit_code == 2
    assert "CUDA" in done.stderr


def test_run_ends_with_the_numbers_and_what_to_do_next(workshop: Any) -> None:
    workshop.suite(protocols=["behaviour", "probe_profile", "causal"])
    done = workshop.run()
    header = done.stdout.splitlines()[1]
    for title in ("model", "task", "accuracy", "OOD skill", "best site", "causal site", "gap", "gate", "status"):
        assert title in header
    assert f"layerstate report {workshop.out}" in done.stdout
    assert "layerstate leaderboard build" in done.stdout
    assert "1/1 cells" in done.stderr


def test_what_to_do_next_can_be_pasted_into_a_shell(workshop: Any) -> None:
    workshop.out = workshop.root / "my runs; old"
    done = workshop.run()
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("Next:")]
    assert shlex.split(line.removeprefix("Next:")) == ["layerstate", "report", str(workshop.out)]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_said_in_words(finished: Any) -> None:
    command = f"{sys.executable} -m layerstate report {shlex.quote(str(finished.out))} > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_when_all_is_done_run_needs_no_torch(workshop: Any) -> None:
    workshop.suite(protocols=["behaviour", "probe_profile", "causal"])
    assert workshop.run().exit_code == 0
    done = in_a_process("run", workshop.root / "suite.yaml", "--out", workshop.out, blocked="torch,sklearn,numba")
    assert done.returncode == 0, done.stderr
    assert "Nothing to do: all 1 cells" in done.stdout


@pytest.fixture
def finished(workshop: Any) -> Any:
    workshop.suite(models=["./tiny.yaml", "./mine.yaml"], seeds=[0, 1], protocols=["behaviour", "causal"])
    workshop.user_model(code="def build(vocab_size, classes):\n    raise ValueError('a|b\\nc')\n")
    assert workshop.run().exit_code == 3
    return workshop


def test_every_format_of_report_is_what_it_says(finished: Any) -> None:
    table = finished.layerstate("report", finished.out).stdout
    assert re.search(r"^tiny +parity8 +2 ", table, re.MULTILINE)
    assert "ValueError" in table

    rows = list(csv.DictReader(io.StringIO(finished.layerstate("report", finished.out, "--format", "csv").stdout)))
    assert [row["model"] for row in rows] == ["tiny", "mine"]
    assert rows[0]["seeds"] == "0 1"
    assert 0 <= float(rows[0]["accuracy_low"]) <= float(rows[0]["accuracy"]) <= float(rows[0]["accuracy_high"]) <= 1
    assert (rows[1]["accuracy"], rows[1]["status"]) == ("", "failed; 4 measurements missing")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = finished.layerstate("report", finished.out, "--format", "json").stdout
    (suite,) = json.loads(text, parse_constant=refuse)["suites"]
    assert suite["rows"][0]["metrics"]["accuracy"]["n"] == 2
    assert suite["rows"][1]["metrics"]["accuracy"]["value"] is None

    markdown = finished.layerstate("report", finished.out, "--format", "markdown").stdout
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_report_shows_a_dash_for_what_is_missing_and_zero_for_zero(finished: Any) -> None:
    from layerstate.suite.runner.aggregate import Column, Summary

    column = Column("gap", "gap", "causal", "gap", {}, digits=2)
    assert column.show(Summary()) == "–"
    assert column.show(Summary(0.0, -1.0, 1.0, 1)) == "0.00"
    assert column.show(Summary(0.0, -1.0, 1.0, 3)) == "0.00 [-1.00, 1.00]"
    table = finished.layerstate("report", finished.out).stdout
    assert re.search(r"^mine +parity8 +2 +– +– +– +– +– +failed", table, re.MULTILINE)


def test_report_needs_no_torch_and_says_where_there_is_nothing(finished: Any, tmp_path: Path) -> None:
    done = in_a_process("report", finished.out, blocked="torch,sklearn,numba")
    assert done.returncode == 0, done.stderr
    (tmp_path / "empty").mkdir()
    empty = finished.layerstate("report", tmp_path / "empty")
    assert empty.exit_code == 1
    assert "holds no suite" in empty.stderr


def test_report_leaves_out_a_damaged_file_and_says_so(finished: Any) -> None:
    path = next((finished.out / "results").glob("*.json"))
    path.write_text("{")
    done = finished.layerstate("report", finished.out)
    assert done.exit_code == 0
    assert str(path) in done.stderr
    assert "1 measurement missing" in done.stdout
    assert path.read_text() == "{"


def test_validate_prints_one_line_an_error(workshop: Any) -> None:
    good = workshop.root / "tiny.yaml"
    right = workshop.layerstate("validate", good, workshop.root / "suite.yaml")
    assert right.exit_code == 0
    assert f"{good}: model tiny is right" in right.stdout
    bad = workshop.root / "bad.yaml"
    bad.write_text("kind: task\nname: bad\ntitle: Bad\nfamily: parity\nstruture: stack\nlengths: {train: 0}\n")
    wrong = workshop.layerstate("validate", workshop.root)
    assert wrong.exit_code == 1
    lines = [line for line in wrong.stdout.splitlines() if "bad.yaml" in line]
    assert len(lines) >= 3
    assert all(re.match(r".*bad\.yaml:\d+:\d+: ", line) for line in lines)
    assert "structure" in wrong.stdout
    assert "1 of 4 specs are wrong" in wrong.stderr


def test_validate_looks_at_what_a_suite_refers_to(workshop: Any) -> None:
    workshop.suite(tasks=["./parity8.yaml", "./missing.yaml"])
    done = workshop.layerstate("validate", workshop.root / "suite.yaml")
    assert done.exit_code == 1
    assert "missing.yaml" in done.stdout


def test_check_prints_every_check_and_fails_with_the_model(workshop: Any) -> None:
    good = workshop.layerstate("check", workshop.user_model(), "--task", workshop.root / "parity8.yaml")
    assert good.exit_code == 0, good.stderr
    for name in ("causal", "capture", "random_edit", "head"):
        assert re.search(rf"^{name} +passed ", good.stdout, re.MULTILINE)
    code = (
        (workshop.root / "mine.py").read_text().replace("return self.head(hidden)", "return self.head(hidden.flip(1))")
    )
    workshop.user_model(code)
    bad = workshop.layerstate("check", workshop.root / "mine.yaml", "--task", workshop.root / "parity8.yaml")
    assert bad.exit_code == 1
    assert re.search(r"^causal +FAILED ", bad.stdout, re.MULTILINE)
    assert "does not conform" in bad.stderr


def test_check_gives_the_model_the_tokens_of_the_task_that_was_asked_for(
    workshop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (workshop.user_model().parent / "mine.py").read_text()
    workshop.user_model(
        code + "\n\nassert_size = build\n\n\ndef build(v, c):\n    assert (v, c) == (6, 6), (v, c)\n"
        "    return assert_size(v, c)\n"
    )
    assert workshop.layerstate("check", workshop.root / "mine.yaml", "--task", "s3").exit_code == 0
    assert workshop.layerstate("check", workshop.root / "mine.yaml").exit_code == 1


def test_the_digest_of_a_tasks_data_is_that_of_the_bytes(workshop: Any) -> None:
    from layerstate.tasks import digest, draw, load_task

    done = workshop.layerstate("data", "digest", workshop.root / "parity8.yaml")
    assert done.exit_code == 0
    expected = digest(draw(load_task("parity", {}, "parity"), "evaluate", 50, 12, seed=0))
    assert re.search(rf"^parity8 +evaluate +12 +50 +{expected}$", done.stdout, re.MULTILINE)


def test_leaderboard_build_passes_its_sources_on(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from layerstate import leaderboard

    seen: list[tuple[Any, Any]] = []

    def fake(sources: list[Path], out: Path) -> Path:
        seen.append((sources, out))
        return out / "index.html"

    monkeypatch.setattr(leaderboard, "build_site", fake, raising=False)
    for name in ("a", "b"):
        (workshop.root / name).mkdir()
    done = workshop.layerstate(
        *("leaderboard", "build", workshop.root / "a", workshop.root / "b", "--out", workshop.root / "site")
    )
    assert done.exit_code == 0, done.stderr
    assert seen == [([workshop.root / "a", workshop.root / "b"], workshop.root / "site")]
    assert str(workshop.root / "site" / "index.html") in done.stdout


def test_a_users_mistake_is_a_message_and_with_debug_a_traceback(workshop: Any) -> None:
    plain = in_a_process("show", "nothing-like-this")
    assert plain.returncode == 1
    assert "Traceback" not in plain.stderr
    for arguments in (["--debug", "show", "nothing-like-this"], ["show", "nothing-like-this", "--debug"]):
        assert "Traceback" in in_a_process(*arguments).stderr


def test_a_pipe_that_closes_early_is_no_error() -> None:
    command = f"{sys.executable} -m layerstate list | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_download_says_what_a_data_set_holds_and_when_there_is_none(workshop: Any) -> None:
    from layerstate.tasks.code_data import embedded_functions

    done = workshop.layerstate("data", "download", "code_depth_embedded", "parity")
    assert done.exit_code == 0
    assert "parity is made by its generator" in done.stderr
    assert embedded_functions().digest() in done.stdout
    assert str(len(embedded_functions().lengths)) in done.stdout
