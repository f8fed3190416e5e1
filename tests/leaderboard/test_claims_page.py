"""The claims page: every claim with its verdict in words, what decides it, and what to run where nothing does."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from layerstate.leaderboard import build_site, judging
from layerstate.leaderboard.render import Renderer
from layerstate.suite.claims.verdicts import Part, Verdict
from layerstate.suite.spec.schema import Claim, ClaimsSpec

from tests.leaderboard.conftest import PAYLOAD, Page
from tests.leaderboard.synthetic import FIVE, write_run


def _part(**changes: Any) -> Part:
    given: dict[str, Any] = {
        "label": "mamba on parity",
        "model": "mamba",
        "task": "parity",
        "value": 0.6,
        "low": 0.5,
        "high": 0.8,
        "n_seeds": 3,
        "expected": 0.4,
        "holds": True,
        "per_seed": [0.55, 0.65, 0.6],
        "status": "ok",
        "reason": None,
    }
    return Part(**(given | changes))


def _spec(count: int, **claim: Any) -> ClaimsSpec:
    claims = [
        {
            "id": f"claim-{number}",
            "says": f"Statement number {number}",
            "source": {"paper": "arXiv:2606.00926v1", "place": "v1 results", "figure": "about 81 %"},
            "expect": {"metric": "probe_profile.late_share", "at_least": 0.4},
        }
        | (claim if number == 1 else {})
        for number in range(count)
    ]
    return ClaimsSpec.model_validate({"kind": "claims", "name": "paper", "title": "A paper", "claims": claims})


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Build a site whose claims are judged as told: fields of the verdicts, in order."""
    monkeypatch.setattr(Renderer, "_drawn", lambda self, spec: 'viewBox="0 0 1 1">')

    def made(verdicts: Sequence[dict[str, Any]], **claim: Any) -> Path:
        spec = _spec(len(verdicts), **claim)
        monkeypatch.setattr(judging, "list_specs", lambda kind: [SimpleNamespace(spec=spec)])

        def judge(claims: ClaimsSpec, results: Any, record: Any) -> list[Verdict]:
            assert {result.cell.model for result in results} == set(record.models)
            blank: dict[str, Any] = {"badge": None, "measured": [], "beside": [], "p": None, "smallest_p": None}
            blank |= {"why": "", "command": ""}
            return [Verdict(claim=claim, **(blank | told)) for claim, told in zip(claims.claims, verdicts, strict=True)]

        monkeypatch.setattr(judging, "judge", judge)
        run = write_run(tmp_path / "run", models=FIVE[1:3], tasks=("parity",), sequences=40)
        return build_site([run], tmp_path / "site").parent

    return made


def _row(site: Path, claim: str) -> str:
    text = (site / "claims.html").read_text("utf-8")
    return text[text.index(f'id="paper-quick-{claim}"') :].partition("</tr>")[0]


def _words(html: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", html).split())


def test_a_claim_has_statement_source_verdict_numbers_and_what_was_expected(build: Callable[..., Path]) -> None:
    row = _row(build([{"verdict": "reproduced", "measured": [_part()]}]), "claim-0")
    words = _words(row)
    for shown in ("claim-0", "Statement number 0", "v1 results", "about 81 %", "✓ reproduced", "mamba on parity"):
        assert shown in words
    assert "0.600 0.500 to 0.800 0.4" in words
    assert "3 seeds" in words
    assert 'href="https://arxiv.org/abs/2606.00926v1"' in row


@pytest.mark.parametrize(
    ("verdict", "shown"),
    [
        ("reproduced", "✓ reproduced"),
        ("not_reproduced", "✗ not reproduced"),
        ("inconclusive", "≈ inconclusive"),
        ("not_measured", "– not measured"),
    ],
)
def test_every_verdict_is_a_word_with_a_mark(build: Callable[..., Path], verdict: str, shown: str) -> None:
    assert shown in _words(_row(build([{"verdict": verdict}, {"verdict": "reproduced"}]), "claim-0"))


def test_the_chart_has_value_interval_seeds_and_threshold_on_one_axis(build: Callable[..., Path]) -> None:
    """From 0.4, the threshold, to 0.8, the interval's upper end: 168 pixels after an edge of 6."""
    row = _row(build([{"verdict": "reproduced", "measured": [_part()]}]), "claim-0")
    assert '<path class="threshold" d="M6.0 0V14"/>' in row
    assert '<path class="whisker" d="M48.0 7H174.0"/>' in row
    assert '<circle class="value" cx="90.0"' in row
    assert re.findall(r'class="seed" cx="([\d.]+)"', row) == ["69.0", "111.0", "90.0"]


def test_words_are_shown_as_text_without_a_chart(build: Callable[..., Path]) -> None:
    word = _part(value="late", low=None, high=None, expected="late", per_seed=["late", "late", "gradual"])
    row = _row(build([{"verdict": "reproduced", "measured": [word]}]), "claim-0")
    assert "<svg" not in row
    assert "late late ✓ (holds)" in _words(row)


def test_partially_solved_and_few_seeds_are_said(build: Callable[..., Path]) -> None:
    told = {
        "verdict": "inconclusive",
        "measured": [_part()],
        "badge": "partially solved",
        "p": 0.25,
        "smallest_p": 0.25,
    }
    words = _words(_row(build([told]), "claim-0"))
    assert "partially solved" in words
    assert "3 seeds can give no p below 0.25" in words


def test_a_withdrawn_claim_is_marked(build: Callable[..., Path]) -> None:
    site = build([{"verdict": "reproduced"}, {"verdict": "not_reproduced"}], status="withdrawn")
    assert "⊘ withdrawn by its authors" in _words(_row(site, "claim-1"))
    assert "withdrawn" not in _words(_row(site, "claim-0"))


def test_a_board_without_any_measured_claim_says_what_to_run(build: Callable[..., Path]) -> None:
    command = "layerstate run standard --protocol patching"
    site = build([{"verdict": "not_measured", "command": command}, {"verdict": "not_measured", "command": command}])
    page = Page(site / "claims.html")
    assert f"No claim is measured on this board. To measure them: {command} The claims" in page.words
    assert "Statement number 1" in page.words


def test_the_index_counts_verdicts_and_leads_to_them(build: Callable[..., Path]) -> None:
    page = Page(build([{"verdict": v} for v in ("reproduced", "not_measured", "reproduced")]) / "index.html")
    assert "A paper : 2 reproduced, 1 not measured" in page.words
    assert {"href": "claims.html#paper-quick"} in page.all("a")


def test_verdicts_are_exported_a_row_a_part_alike_in_every_format(build: Callable[..., Path]) -> None:
    told = {"verdict": "reproduced", "measured": [_part(), _part(value="late", low=None, high=None, per_seed=[])]}
    data = build([told | {"beside": [_part(label="untrained")]}, {"verdict": "not_measured"}]) / "data"
    text = list(csv.DictReader(io.StringIO((data / "claims.csv").read_text("utf-8"))))
    listed = json.loads((data / "claims.json").read_text("ascii"))
    table = pq.read_table(data / "claims.parquet").to_pylist()
    assert [tuple(row) for row in listed["rows"]] == [tuple(row.values()) for row in table]
    assert [(row["claim"], row["role"], row["value"], row["word"]) for row in text] == [
        ("claim-0", "decides", "0.6", ""),
        ("claim-0", "decides", "", "late"),
        ("claim-0", "beside", "0.6", ""),
        ("claim-1", "", "", ""),
    ]


def test_hostile_text_of_a_verdict_is_shown_and_inert(build: Callable[..., Path]) -> None:
    part = _part(label=PAYLOAD, expected=PAYLOAD, value=PAYLOAD, low=None, high=None, per_seed=[], reason=PAYLOAD)
    told = {"verdict": "inconclusive", "measured": [part], "why": PAYLOAD, "command": PAYLOAD, "badge": PAYLOAD}
    page = Page(build([told, told], says=PAYLOAD, source={"paper": PAYLOAD, "place": PAYLOAD}) / "claims.html")
    text = page.path.read_text("utf-8")
    assert text.count("&lt;script&gt;alert(1)") > 8
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert not page.all("img")
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]


@pytest.mark.skipif("replaced_by" not in Claim.model_fields, reason="claims do not name what replaces them")
def test_a_withdrawn_claim_leads_to_what_replaces_it(build: Callable[..., Path]) -> None:
    site = build([{"verdict": "reproduced"}] * 2, status="withdrawn", replaced_by="claim-0")
    assert '<a href="#paper-quick-claim-0">claim-0</a>' in _row(site, "claim-1")
