"""Building: the same bytes from the same files, nothing of others overwritten, and no torch."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from layerstate.leaderboard import build_site
from layerstate.leaderboard.read import SiteError, read_records
from layerstate.leaderboard.render import Renderer
from layerstate.leaderboard.site import make_site
from layerstate.leaderboard.text import clean, linked, number
from layerstate.suite.runner.files import render
from layerstate.suite.runner.plan import make_plan, suite_record
from layerstate.suite.spec.load import resolve_suite
from ruamel.yaml import YAML

from tests.leaderboard.conftest import change_json
from tests.leaderboard.synthetic import FIVE, write_run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_run(tmp_path / "small", models=FIVE[1:2], tasks=("parity",), sequences=40)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the drawing of charts out, where a test is not about them."""
    monkeypatch.setattr(Renderer, "_drawn", lambda self, spec: 'viewBox="0 0 1 1">')


def _contents(site: Path) -> dict[str, bytes]:
    return {path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()}


def test_another_process_builds_the_same_bytes_and_imports_no_torch(small: Path, tmp_path: Path) -> None:
    here = _contents(build_site([small], tmp_path / "here").parent)
    code = (
        "import sys; from pathlib import Path; from layerstate.leaderboard import build_site\n"
        f"build_site([Path({str(small)!r})], Path({str(tmp_path / 'there')!r}))\n"
        "assert not {'torch', 'sklearn', 'numba'} & set(sys.modules), 'a computing library was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "2"})
    assert _contents(tmp_path / "there") == here


@pytest.mark.usefixtures("undrawn")
def test_a_rebuild_removes_pages_of_what_is_gone(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    build_site([small, write_run(tmp_path / "more", models=FIVE[:1], tasks=("parity",), sequences=40)], out)
    assert (out / "models" / "transformer.html").exists()
    (out / "notes.txt").write_text("mine")
    build_site([small], out)
    assert not (out / "models" / "transformer.html").exists()
    assert (out / "notes.txt").read_text() == "mine"


@pytest.mark.usefixtures("undrawn")
def test_a_folder_with_other_things_in_it_is_left_alone(small: Path, tmp_path: Path) -> None:
    for out in (small, tmp_path / "thesis"):
        out.mkdir(exist_ok=True)
        (out / "index.html").write_text("mine")
        with pytest.raises(SiteError, match="holds no earlier site"):
            build_site([small], out)
        assert (out / "index.html").read_text() == "mine"


@pytest.mark.usefixtures("undrawn")
def test_a_forged_list_of_files_removes_nothing_outside(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    build_site([small], out)
    (tmp_path / "precious").write_text("mine")
    change_json(out / "site.json", lambda listed: listed["files"].update({"../precious": "", "/etc/hostname": ""}))
    build_site([small], out)
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.usefixtures("undrawn")
def test_a_file_where_the_site_should_go_is_an_error(small: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SiteError, match="is a file"):
        build_site([small], tmp_path / "file")


@pytest.mark.usefixtures("undrawn")
def test_tables_hold_every_number_alike(small: Path, tmp_path: Path) -> None:
    data = build_site([small], tmp_path / "site").parent / "data"
    table = pq.read_table(data / "metrics.parquet")
    listed = json.loads((data / "metrics.json").read_text("ascii"))
    text = list(csv.DictReader(io.StringIO((data / "metrics.csv").read_text("utf-8"))))
    stored = [m for r in read_records([small]).results.values() for m in r.metrics]
    assert len(table) == len(listed["rows"]) == len(text) == len(stored)
    assert table.column_names == listed["columns"] == list(text[0])
    values = sorted(m.value for m in stored if isinstance(m.value, float))
    assert sorted(v for v in table["value"].to_pylist() if v is not None) == values
    assert sorted(float(row["value"]) for row in text if row["value"]) == pytest.approx(values, abs=0)
    assert 0.0 in values


@pytest.mark.usefixtures("undrawn")
def test_no_cell_of_the_csv_is_a_formula(small: Path, tmp_path: Path) -> None:
    def poison(result: dict[str, object]) -> None:
        for metric in result["metrics"]:  # pyright: ignore[reportGeneralTypeIssues]
            metric["unit"] = '=HYPERLINK("https://a.example")'

    for path in (small / "results").glob("*.json"):
        change_json(path, poison)
    data = build_site([small], tmp_path / "site").parent / "data"
    rows = list(csv.DictReader(io.StringIO((data / "metrics.csv").read_text("utf-8"))))
    assert {row["unit"] for row in rows} == {'\'=HYPERLINK("https://a.example")'}
    assert set(pq.read_table(data / "metrics.parquet")["unit"].to_pylist()) == {'=HYPERLINK("https://a.example")'}


def test_numbers_are_written_by_their_unit() -> None:
    assert number(0.98765, "skill") == "0.988"
    assert number(-0.5, "skill") == "−0.500"
    assert number(2.0, "sites") == "+2"
    assert number(-1.4, "sites") == "−1.4"
    assert number(0.0, "sites") == "0"
    assert number(-0.0001, "share") == "0.000"
    assert number(12.345, "pp") == "+12.3"
    assert number(0.0, "directions") == "0"
    assert number(1e300, "directions") == "1.00e+300"


def test_hidden_characters_are_made_visible() -> None:
    assert clean("a\u202eb\u200bc\x00d\ud800e") == "a�b�c�d�e"
    assert clean("x" * 50, 10) == "x" * 10 + "…"


@pytest.mark.parametrize(
    "text", ["javascript:alert(1)", "data:text/html,x", "//a.example", "ftp://a.example", "file:///etc"]
)
def test_other_addresses_stay_text(text: str) -> None:
    assert "<a" not in linked(text)


def test_an_address_ends_where_it_could_break_out() -> None:
    assert linked('https://a.example/"onclick="x') == (
        '<a href="https://a.example/" rel="noopener noreferrer nofollow">https://a.example/</a>&#34;onclick=&#34;x'
    )


def test_the_metrics_that_pages_read_are_those_that_the_protocols_declare() -> None:
    declared: dict[str, set[str]] = {}
    mechanisms = ("necessity", "patching", "conv1d_attribution", "ood_ablation", "subspace", "grouping")
    for name in ("behaviour", "probe_profile", "causal", *mechanisms):
        spec = YAML(typ="safe").load((ROOT / "specs" / "protocols" / f"{name}.yaml").read_text("utf-8"))
        declared[name] = set(spec["metrics"])
    assert declared["behaviour"] >= {"accuracy", "skill", "ood_skill", "chance"}
    assert declared["probe_profile"] >= {"skill", "best_site", "best_site_index", "shape", "early_share", "late_share"}
    assert declared["causal"] >= {
        "drop",
        "random_drop",
        "refit_accuracy",
        "causal_site",
        "causal_site_index",
        "gap",
    }
    curves = {"curve_refit_accuracy", "curve_task_accuracy", "curve_random_accuracy"}
    assert declared["necessity"] >= {*curves, "verdict"}
    assert declared["patching"] >= {"recovery"}
    assert declared["conv1d_attribution"] >= {"posthoc_effect", "retrain_effect"}
    assert declared["ood_ablation"] >= {"drop", "random_drop"}
    assert declared["subspace"] >= {"effect"}
    assert declared["grouping"] >= {"grouping"}


def test_words_of_several_seeds_are_counted(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", models=FIVE[4:], tasks=("parity",), seeds=(0, 1, 2), sequences=40)
    paths = [path for path in sorted((run / "results").glob("*.json")) if '"probe_profile"' in path.read_text("utf-8")]

    def other(result: dict[str, list[dict[str, object]]]) -> None:
        for metric in result["metrics"]:
            if metric["metric"] == "shape":
                metric["value"] = "late"

    change_json(next(p for p in paths if json.loads(p.read_text("utf-8"))["protocol"] == "probe_profile"), other)
    site = make_site(read_records([run]))
    estimates = site.estimates[site.boards[0].entries[0].identity]
    found = estimates.get("parity", "probe_profile.shape", {"variable": "state", "on": "skill"})
    assert found is not None
    assert found.value == "gradual ×2, late ×1"


def test_a_mean_over_seeds_says_how_many_had_a_number(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", models=FIVE[3:4], tasks=("parity",), seeds=(0, 1, 2), sequences=40)

    def without(result: dict[str, list[dict[str, object]]]) -> None:
        for metric in result["metrics"]:
            if metric["metric"] == "gap":
                metric |= {"value": None, "low": None, "high": None, "status": "undefined", "reason": "no_causal_site"}

    for path in (run / "results").glob("*.json"):
        content = json.loads(path.read_text("utf-8"))
        if content["protocol"] == "causal" and content["cell"]["seed"] == 2:
            change_json(path, without)
    site = make_site(read_records([run]))
    found = site.estimates[site.boards[0].entries[0].identity].get(
        "parity", "causal.gap", {"ruler": "means", "fill": "mean"}
    )
    assert found is not None
    assert (found.value, found.seeds, found.asked, found.status) == (1.0, 2, 3, "undefined")


def test_every_model_of_a_suite_as_the_plan_records_it_is_on_the_board(tmp_path: Path) -> None:
    resolved = resolve_suite("quick")
    record = suite_record(make_plan(resolved))
    for room in ("suites", "results"):
        (tmp_path / "run" / room).mkdir(parents=True)
    (tmp_path / "run" / "suites" / f"quick-{record.identity}.json").write_bytes(render(record))
    site = make_site(read_records([tmp_path / "run"]))
    assert site.refused == []
    assert {entry.name for entry in site.boards[0].entries} == set(resolved.models)
