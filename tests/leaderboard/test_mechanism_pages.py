"""The panels of erasure and interventions: what was measured is drawn and said, what was not leaves no panel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from layerstate.leaderboard import build_site
from layerstate.leaderboard.axes import range_axis
from layerstate.leaderboard.estimates import at
from layerstate.leaderboard.intervention_figures import seed_test, smallest_in_words
from layerstate.leaderboard.read import read_records
from layerstate.leaderboard.site import Site, make_site

from tests.leaderboard.conftest import Page, change_json
from tests.leaderboard.mechanisms import MECHANISMS
from tests.leaderboard.simulated import PROTOCOLS
from tests.leaderboard.synthetic import FIVE, write_run

MAMBA, GRU = FIVE[1], FIVE[4]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(
        tmp_path_factory.mktemp("mechanisms") / "run",
        models=[MAMBA, GRU, FIVE[2]],
        tasks=("parity", "s3"),
        seeds=(0, 1, 2),
        sequences=40,
        protocols=(*PROTOCOLS, *MECHANISMS),
    )


@pytest.fixture(scope="module")
def built(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site([run], tmp_path_factory.mktemp("built")).parent


@pytest.fixture(scope="module")
def mamba(built: Path) -> str:
    return (built / "models" / "mamba.html").read_text("utf-8")


@pytest.fixture(scope="module")
def gru(built: Path) -> str:
    return (built / "models" / "gru.html").read_text("utf-8")


def _verdict_row(text: str, task: str, erased: str) -> str:
    table = text[text.index('class="verdicts"') :].partition("</table>")[0]
    return next(row for row in table.split("<tr>") if f'"row">{task}<' in row and f">{erased}<" in row)


def _verdicts(text: str, task: str, erased: str = "INLP") -> list[str]:
    row = _verdict_row(text, task, erased)
    cells = (re.sub("<[^>]*>", "", f"<td{cell}") for cell in row.split("<td")[2:])
    return [" ".join(cell.split()) for cell in cells]


def _panel(text: str, title: str) -> str:
    return text[text.index(f"<summary><b>{title}</b>") :].partition("</details>")[0]


def test_verdicts_stand_in_words_with_a_mark_each(mamba: str) -> None:
    """The state of this model is used from block.1 on, and its last block cannot be erased."""
    assert _verdicts(mamba, "parity") == ["○ not necessary", "● necessary", "● necessary", "◐ not erased"]


def test_what_one_set_of_directions_would_have_said_stands_below_and_muted(mamba: str) -> None:
    """The second version of the paper turns on this difference: a reader has to see both."""
    row = _verdict_row(mamba, "parity", "one probe&#39;s directions alone")
    assert all('muted"' in cell for cell in row.split("<td")[1:])
    assert _verdicts(mamba, "parity", "one probe&#39;s directions alone") == ["○ not necessary"] * 4
    assert _verdicts(mamba, "parity", "class means alone") == ["● necessary"] * 4
    assert _verdicts(mamba, "parity", "LEACE") == _verdicts(mamba, "parity")
    assert 'class="muted"' not in _verdict_row(mamba, "parity", "LEACE")
    order = [mamba.index(f">{erased}<") for erased in ("INLP", "LEACE", "class means alone")]
    assert order == sorted(order)


def test_seeds_that_disagree_are_counted_and_not_called_unmeasured(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    for path in run.rglob("*.json"):
        (copy / path.relative_to(run)).parent.mkdir(parents=True, exist_ok=True)
        (copy / path.relative_to(run)).write_bytes(path.read_bytes())

    def other(result: dict[str, Any]) -> None:
        mine = result["protocol"] == "necessity" and result["cell"]["model"] == "gru" and result["cell"]["seed"] == 2
        for metric in result["metrics"] if mine else ():
            if metric["metric"] == "verdict":
                metric["value"] = "inconclusive"

    for path in (copy / "results").glob("*.json"):
        change_json(path, other)
    text = (build_site([copy], tmp_path / "site").parent / "models" / "gru.html").read_text("utf-8")
    assert _verdicts(text, "parity")[0] == "◇ not necessary ×2, inconclusive ×1"


def test_the_erasure_chart_has_refit_task_and_random_curves_of_every_site(mamba: str) -> None:
    figure = _panel(mamba, "Erasure step by step").partition("</figure>")[0]
    lines = re.findall(r'<path d="M[^"]*" stroke="var\(--m\d+, #[0-9a-f]{6}\)"[^>]*>', figure)
    lines = [line for line in lines if "fill=" not in line]
    assert len([line for line in lines if "1,3.5" in line]) == 4
    assert len([line for line in lines if "4,3" in line]) == 4
    assert len([line for line in lines if "stroke-dasharray" not in line]) == 4
    for words in ("block.0", "not necessary", "not erased", "directions erased", "chance"):
        assert f">{words}</text>" in figure


def test_recovery_that_holds_by_construction_is_hollow_and_said_so(mamba: str) -> None:
    figure = _panel(mamba, "Patching").partition("</figure>")[0]
    assert "hollow, dotted: holds by construction" in figure
    assert len(re.findall(r'fill="var\(--paper[^"]*" stroke="var\(--m', figure)) >= 1
    assert "self 0." in figure
    spoken = figure.partition('aria-label="')[2].partition('"')[0]
    assert "1.00" not in spoken, "a value that is 1 by construction is read out as a finding"


def test_a_component_removed_is_shown_in_every_mode_with_p_of_its_seeds(mamba: str) -> None:
    figure = _panel(mamba, "Components removed").partition("</figure>")[0]
    for words in ("retrained", "bypass", "current tap", "effect of removal, pp", "trained here"):
        assert f">{words}</text>" in figure
    assert "retrained p\u00a0=\u00a00.250" in figure
    assert "3 seeds can give no p below 0.25" in figure


def test_what_was_not_measured_has_no_panel(gru: str, site: Path) -> None:
    assert "Components removed" not in gru, "the GRU has no convolution"
    assert "<b>Patching</b>" in gru
    quick = (site / "models" / "mamba.html").read_text("utf-8")
    assert "Interventions" not in quick
    assert "Is the state needed there?" not in quick


def test_grouping_is_said_in_words(mamba: str) -> None:
    assert re.search(r"<b>S3 goes with Parity</b>: grouping 0\.150 \(0\.\d+ to 0\.\d+\)", mamba)


def test_ablation_at_longer_lengths_is_shown_at_the_causal_site(mamba: str, gru: str) -> None:
    assert "at block.1, the causal site" in _panel(mamba, "Ablation at longer lengths")
    assert "the best site" in _panel(gru, "Ablation at longer lengths"), "this model has no causal site"


def test_charts_of_interventions_are_folded(mamba: str) -> None:
    assert mamba.count("<details open") == 0


def test_k_runs_across_a_table_that_has_no_sites(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", models=[GRU], tasks=("parity",), sequences=40, protocols=(*PROTOCOLS, "subspace"))

    def whole(result: dict[str, Any]) -> None:
        if result["protocol"] == "subspace":
            result["metrics"] = [metric for metric in result["metrics"] if metric["at"].pop("site") == "block.1"]

    for path in (run / "results").glob("*.json"):
        change_json(path, whole)
    page = Page(build_site([run], tmp_path / "site").parent / "models" / "gru.html")
    assert "k 1 k 2 k 4 k 8 k 16" in page.words


def test_task_pages_compare_models_where_several_have_it(built: Path) -> None:
    page = Page(built / "tasks" / "s3.html")
    assert "What patching one position carries on" in page.words
    assert "without conv1d" in page.words
    assert "grouping" in page.words
    assert "grouping" not in Page(built / "tasks" / "parity.html").words.replace("grouping_", "")


def test_an_unknown_protocol_has_its_metrics_in_the_tables(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run", models=[GRU], tasks=("parity",), sequences=40, protocols=(*PROTOCOLS, "my_protocol")
    )
    page = Page(build_site([run], tmp_path / "site").parent / "models" / "gru.html")
    assert "my_protocol" in page.words
    assert "points" in page.words
    assert "my_protocol" in (tmp_path / "site" / "data" / "metrics.csv").read_text("utf-8")


def test_the_method_page_names_the_traps(built: Path) -> None:
    words = Page(built / "method.html").words
    for trap in ("tie set", "random weights", "refitted probe beside every drop", "1 by construction", "few seeds"):
        assert trap.lower() in words.lower()
    assert "0.25 with 3 seeds, 0.0625 with 5 seeds, 0.03125 with 6 seeds" in words


def test_the_seed_test_is_exact(run: Path) -> None:
    site: Site = make_site(read_records([run]))
    entry = next(entry for entry in site.boards[0].entries if entry.name == "mamba")
    found = seed_test(entry, "s3", "conv1d_attribution", "retrain_effect", at({"length": 16}))
    assert found is not None
    assert (found.p, found.smallest) == (0.25, 0.25)
    assert seed_test(entry, "s3", "conv1d_attribution", "retrain_effect", at({"length": 17})) is None


def test_few_seeds_are_said_to_be_few() -> None:
    assert smallest_in_words(0.25) == "3 seeds can give no p below 0.25"
    assert smallest_in_words(2.0**-4) == "5 seeds can give no p below 0.0625"
    assert smallest_in_words(2.0**-5) == ""


@pytest.mark.parametrize(("low", "high"), [(-25.2, -12.6), (0.0, 0.4), (-0.3, 1.1), (0.0, 0.0), (-1e-9, 3e5)])
def test_axes_hold_their_values_and_zero(low: float, high: float) -> None:
    axis = range_axis(low, high, "")
    places = [place for place, _ in axis.ticks]
    assert axis.low <= min(low, 0.0)
    assert axis.high >= max(high, 0.0)
    assert 0.0 in places
    assert len(places) <= 6
    assert all(axis.low <= place <= axis.high for place in places)
