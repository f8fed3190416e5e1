"""Files as a stranger may have left them: used, or named with the reason; the rest of the board stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from layerstate.leaderboard.read import Records, read_records
from layerstate.leaderboard.site import make_site

from tests.leaderboard.conftest import change_json
from tests.leaderboard.synthetic import FIVE, write_run

KEPT = 5
"""Readable results of the run, besides the one that a test spoils."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", models=FIVE[3:], tasks=("parity",), sequences=40)


def _first(run: Path) -> Path:
    return sorted((run / "results").glob("*.json"))[0]


def _refused(records: Records) -> dict[str, str]:
    return {refused.where: refused.why for refused in records.refused}


def _spoiled(run: Path, path: Path, text: str | bytes) -> str:
    """Write nonsense over a result, and return why it is refused; the others must still be read."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    records = read_records([run])
    assert len(records.results) == KEPT
    assert make_site(records).boards[0].entries
    return _refused(records)[f"run/results/{path.name}"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "empty"),
        ("{", "Expecting"),
        ("[]", "valid dictionary"),
        ("null", "valid dictionary"),
        (b"\xff\xfe{}", "codec"),
        ("[" * 100_000, "nested too deeply"),
        ('{"identity": "a", "identity": "b"}', "stands twice"),
        ('{"seconds": NaN}', "NaN is not JSON"),
        ('{"seconds": -Infinity}', "Infinity is not JSON"),
        ('{"seconds": ' + "9" * 5000 + "}", "digits"),
    ],
)
def test_what_is_not_strict_json_is_named_with_the_reason(run: Path, text: str | bytes, why: str) -> None:
    assert why in _spoiled(run, _first(run), text)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("seconds", 1e999, "Infinity is not JSON"),
        ("seconds", "3", "valid number"),
        ("surprise", 1, "Extra inputs"),
        ("schema_version", 2, "Input should be 1"),
        ("protocol", "../../etc", "not a name that a protocol may have"),
        ("identity", "0" * 24, "it holds the measurement"),
        ("identity", "../x", "not an identity"),
        ("sites", [], "no sites"),
    ],
)
def test_wrong_fields_are_refused(run: Path, field: str, value: Any, why: str) -> None:
    path = _first(run)
    content = json.loads(path.read_text("utf-8")) | {field: value}
    assert why in _spoiled(run, path, json.dumps(content))


@pytest.mark.parametrize("name", ["..", "../index", "a/b", "A", "", "a b", "é", "a" * 65, "a\u202eb", "con\x00", "~x"])
def test_names_that_would_leave_their_folder_are_refused(run: Path, name: str) -> None:
    path = _first(run)
    content = json.loads(path.read_text("utf-8"))
    content["cell"]["model"] = name
    assert "not a name that a model may have" in _spoiled(run, path, json.dumps(content))


def test_a_lone_surrogate_in_a_text_breaks_no_page(run: Path) -> None:
    for path in (run / "results").glob("*.json"):
        change_json(path, lambda result: result["provenance"].update(platform="\ud800"))
    assert len(read_records([run]).results) == KEPT + 1


def test_links_are_not_followed(run: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    path = _first(run)
    path.rename(secret)
    path.symlink_to(secret)
    records = read_records([run])
    assert len(records.results) == KEPT
    assert _refused(records)[f"run/results/{path.name}"] == "a link is not followed"


def test_a_linked_room_is_not_entered(run: Path, tmp_path: Path) -> None:
    (run / "results").rename(tmp_path / "elsewhere")
    (run / "results").symlink_to(tmp_path / "elsewhere")
    records = read_records([run])
    assert not records.results
    assert _refused(records)["run/results"] == "a link is not followed"


def test_a_huge_file_is_not_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("layerstate.leaderboard.read.MAX_BYTES", 100)
    with pytest.raises(Exception, match="larger than"):
        read_records([run])


def test_counts_that_unpack_to_gigabytes_are_refused_unopened(run: Path) -> None:
    for path in (run / "results").glob("*.json"):
        change_json(path, lambda result: [array.update(shape=[10**12]) for array in result["arrays"].values()])
    board = make_site(read_records([run])).boards[0]
    assert not board.ranked
    assert all("shape: [1000000000000]" in entry.unranked[0] for entry in board.entries)


@pytest.mark.parametrize(
    ("field", "value"), [("data", "AAAA"), ("data", "no base64!"), ("shape", [41]), ("shape", [-1])]
)
def test_counts_that_do_not_unpack_are_a_reason_and_not_a_crash(run: Path, field: str, value: Any) -> None:
    for path in (run / "results").glob("*.json"):
        change_json(path, lambda result: [array.update({field: value}) for array in result["arrays"].values()])
    board = make_site(read_records([run])).boards[0]
    assert not board.ranked
    assert all(entry.unranked for entry in board.entries)


def test_the_first_source_counts_where_two_disagree(run: Path, tmp_path: Path) -> None:
    copy = write_run(tmp_path / "copy", models=FIVE[3:], tasks=("parity",), sequences=40)
    path = _first(copy)
    change_json(path, lambda result: result.update(clean_accuracy=0.123))
    records = read_records([run, copy])
    assert records.results[path.stem].clean_accuracy != 0.123
    assert "other numbers" in _refused(records)[f"copy/results/{path.name}"]


def test_a_result_that_no_suite_asks_for_is_named(run: Path) -> None:
    stray = "0" * 24
    content = json.loads(_first(run).read_text("utf-8")) | {"identity": stray}
    (run / "results" / f"{stray}.json").write_text(json.dumps(content), "utf-8")
    records = read_records([run])
    make_site(records)
    assert "no suite here asks for it" in _refused(records)[f"results/{stray}.json"]


def test_a_result_of_another_cell_under_an_asked_name_is_not_used(run: Path) -> None:
    paths = sorted((run / "results").glob("*.json"), key=lambda path: '"model": "lstm"' in path.read_text("utf-8"))
    path = paths[-1]
    change_json(path, lambda result: (result["cell"].update(model="gru"), result["specs"]["model"].update(name="gru")))
    board = make_site(read_records([run])).boards[0]
    entry = next(entry for entry in board.entries if entry.name == "lstm")
    assert "its result file is of another cell or protocol" in entry.unranked[0]


def test_a_suite_with_an_invalid_spec_is_named_and_the_others_stand(run: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", suite="other", models=FIVE[3:], tasks=("parity",), sequences=40)
    path = next((other / "suites").glob("*.json"))
    change_json(path, lambda record: record["tasks"]["parity"].update(target="nothing"))
    records = read_records([run, other])
    assert [board.slug for board in make_site(records).boards] == ["quick"]
    assert any("tasks.parity" in refused.why and "nothing" in refused.why for refused in records.refused)


def test_a_model_with_an_invalid_spec_is_named_and_the_others_stand(run: Path) -> None:
    path = next((run / "suites").glob("*.json"))
    change_json(path, lambda record: record["models"]["gru"]["architecture"].update(width="wide"))
    records = read_records([run])
    assert [entry.name for entry in make_site(records).boards[0].entries] == ["lstm"]
    assert any("the model 'gru'" in refused.why and "width" in refused.why for refused in records.refused)


def test_a_folder_of_run_folders_is_read_as_all_of_them(run: Path) -> None:
    assert len(read_records([run.parent]).results) == KEPT + 1


def test_a_failed_result_is_a_gap_with_its_reason(run: Path) -> None:
    change_json(_first(run), lambda result: result.update(status="failed", reason="no probe converged"))
    board = make_site(read_records([run])).boards[0]
    assert sum("failed: no probe converged" in " ".join(entry.unranked) for entry in board.entries) == 1
