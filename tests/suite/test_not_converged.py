"""A number whose fits did not converge is marked wherever it is shown, in the words of the board."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from layerstate.leaderboard.cells import cell_of
from layerstate.leaderboard.estimates import combine
from layerstate.suite.claims.evidence import Results
from layerstate.suite.runner.aggregate import COLUMNS, summarise
from layerstate.suite.runner.compare import differences
from layerstate.suite.runner.files import render
from layerstate.suite.runner.formats import Format
from layerstate.suite.runner.gathered import Gathered
from layerstate.suite.runner.report import report_text
from layerstate.suite.runner.store import read_results
from layerstate.suite.spec.schema import Expectation

from .made import TASK, metric, record, result

GAP = {"ruler": "means", "fill": "mean"}
SLOW: dict[str, Any] = {
    "status": "not_converged",
    "reason": "a probe stopped before its gradient was within the tolerance",
}
BELOW: dict[str, Any] = {"status": "below_gate", "reason": "accuracy 0.7; also not_converged"}
WORDS = "not converged"


@pytest.fixture
def slow(workshop: Any) -> Path:
    workshop.suite(protocols=["behaviour", "probe_profile"])
    assert workshop.run().exit_code == 0
    (found,) = (each for each in read_results(workshop.out) if each.protocol == "probe_profile")
    metrics = [each.model_copy(update=SLOW if each.value is not None else {}) for each in found.metrics]
    path = workshop.out / "results" / f"{found.identity}.json"
    path.write_bytes(render(found.model_copy(update={"metrics": metrics})))
    return Path(workshop.out)


@pytest.mark.parametrize("format", list(Format))
def test_the_report_marks_it_in_every_format(slow: Path, format: Format) -> None:
    assert WORDS in report_text(slow, format)


@pytest.mark.parametrize("how", [SLOW, BELOW])
def test_a_summary_counts_the_seeds(how: dict[str, Any]) -> None:
    gap = next(column for column in COLUMNS if column.metric == "gap")
    seeds = [result("causal", metric("gap", 1.0, at=GAP)), result("causal", metric("gap", 2.0, at=GAP, **how), seed=1)]
    assert summarise(gap, seeds, TASK).not_converged == 1
    assert summarise(gap, seeds[:1], TASK).not_converged == 0


@pytest.mark.parametrize("how", [SLOW, BELOW])
def test_a_comparison_names_the_model(how: dict[str, Any]) -> None:
    found = [
        result("causal", metric("gap", 1.0, at=GAP, **how)),
        result("causal", metric("gap", 2.0, at=GAP), model="lstm"),
    ]
    (row,) = differences(Gathered(record(), found), "gru", "lstm")
    assert f"{WORDS}: gru" in row.note


@pytest.mark.parametrize("how", [SLOW, BELOW])
def test_a_claim_does_not_use_it(how: dict[str, Any]) -> None:
    behaviour = result("behaviour", metric("skill", 0.9, at={"length": 8}))
    results = Results([result("causal", metric("gap", 1.0, at=GAP, **how)), behaviour], record())
    found = results.evidence("causal.gap", "gru", "dyck", GAP, required_skill=0.1)
    assert (found.values, found.status) == ([], "not_converged")


def test_a_mean_over_places_is_no_sounder_than_the_least_sound_of_them() -> None:
    places = [
        metric("effect", 1.0, 0.5, at={"site": "embed"}, status="below_gate", reason="accuracy 0.7"),
        metric("effect", 2.0, 0.5, at={"site": "block.0"}, **SLOW),
    ]
    wanted = Expectation(metric="causal.effect", over="site", reduce="mean", at_least=0.0)
    found = Results([result("causal", *places)], record()).evidence(
        "causal.effect", "gru", "dyck", {}, expectation=wanted
    )
    assert (found.values, found.status) == ([], "not_converged")


def test_the_board_says_it_in_the_same_words() -> None:
    (made,) = combine([[metric("gap", 1.0, **SLOW)]], 1)
    assert WORDS in cell_of(made).note
