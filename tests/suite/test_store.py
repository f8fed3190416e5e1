"""The run folder: whole files or none, strict JSON, damaged files set aside, names from identities."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layerstate.suite.runner import files
from layerstate.suite.runner.files import StoreError, parse, render, write_atomic
from layerstate.suite.runner.store import (
    CellFailures,
    Failure,
    Store,
    read_cells,
    read_failures,
    read_results,
    read_suites,
)
from layerstate.suite.spec.results import CellKey, GateReading, Metric, Provenance, Result, SuiteRecord

IDENTITY = "0123456789abcdef01234567"
OTHER = "fedcba9876543210fedcba98"
CELL = CellKey(identity=OTHER, model="tiny", task="parity8", seed=0)


TASK = {
    "kind": "task",
    "name": "parity8",
    "title": "Parity",
    "family": "parity",
    "structure": "prefix_update",
    "target": "parity",
    "states": ["parity"],
    "lengths": {"train": 8, "evaluate": [8]},
}
PROTOCOL = {
    "kind": "protocol",
    "name": "behaviour",
    "title": "Behaviour",
    "measures": "mine",
    "metrics": {name: {"title": name, "unit": "u", "direction": "none"} for name in ("a", "b", "c", "gap", "m")},
}
SUITE = {"kind": "suite", "name": "s", "title": "S", "tasks": ["t"], "seeds": [0], "protocols": ["behaviour"]}


def a_result(identity: str = IDENTITY, metrics: list[Metric] | None = None) -> Result:
    provenance = Provenance(
        layerstate="0",
        commit=None,
        dirty=None,
        python="3",
        torch="2",
        numpy="2",
        platform="x",
        device="cpu",
        threads=1,
        lock=None,
        time="2026-01-01T00:00:00+00:00",
    )
    return Result(
        identity=identity,
        cell=CELL,
        protocol="behaviour",
        protocol_version=1,
        specs={"model": {"name": "tiny"}, "task": TASK, "training": {}, "protocol": PROTOCOL},
        sites=["embed", "block.0"],
        chance={"8": 0.5},
        clean_accuracy=1.0,
        gate=GateReading(metric="behaviour.accuracy", at_length=8, at_least=0.95, value=1.0, passed=True),
        metrics=metrics or [Metric(metric="m", value=1.0, unit="u", direction="none", at={}, status="ok")],
        digests={},
        seconds=0.1,
        peak_memory_mb=1.0,
        provenance=provenance,
    )


def a_suite(models: dict[str, Any], cells: list[CellKey], identity: str = IDENTITY) -> SuiteRecord:
    return SuiteRecord(
        identity=identity,
        suite={**SUITE, "models": list(models)},
        tasks={"t": {**TASK, "name": "t"}},
        models=models,
        protocols={"behaviour": PROTOCOL},
        cells=cells,
        measurements=[
            {"identity": cell.identity[::-1], "cell": cell.identity, "protocol": "behaviour"} for cell in cells
        ],
    )


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path: Path, said: list[str]) -> Store:
    store = Store(tmp_path / "out", said.append)
    store.prepare()
    return store


def test_a_result_is_read_as_it_was_written(store: Store) -> None:
    result = a_result(metrics=[Metric(metric="gap", value=0.0, unit="sites", direction="none", at={"site": "embed"})])
    store.write_result(result)
    assert store.read_result(IDENTITY) == result
    assert read_results(store.out) == [result]


@given(
    value=st.one_of(st.none(), st.text(max_size=20), st.floats(allow_nan=False, allow_infinity=False)),
    at=st.dictionaries(st.text(max_size=5), st.one_of(st.text(max_size=5), st.integers(-(2**40), 2**40)), max_size=3),
)
def test_any_metric_survives_the_round_trip_exactly(value: float | str | None, at: dict[str, str | int]) -> None:
    result = a_result(metrics=[Metric(metric="m", value=value, unit="u", direction="none", at=at)])
    again = Result.model_validate(parse(render(result)))
    assert again == result
    assert repr(again.metrics[0].value) == repr(value)


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"\x00\xff\xfe",
        b"[]",
        b"{}",
        b'{"identity": NaN}',
        b'{"identity": "a", "identity": "b"}',
        b"[" * 100_000,
    ],
    ids=["empty", "truncated", "binary", "list", "no fields", "NaN", "key twice", "endless depth"],
)
def test_a_damaged_result_is_set_aside_and_counts_as_missing(store: Store, said: list[str], damage: bytes) -> None:
    path = store.result_path(IDENTITY)
    path.write_bytes(damage)
    assert store.read_result(IDENTITY) is None
    assert path.with_name(f"{path.name}.corrupt-1").read_bytes() == damage
    assert not path.exists()
    assert len(said) == 1
    assert str(path) in said[0]


def test_a_result_cut_anywhere_is_never_read_as_another(store: Store) -> None:
    whole = render(a_result())
    path = store.result_path(IDENTITY)
    for length in range(0, len(whole) - 2, 37):
        path.write_bytes(whole[:length])
        assert store.read_result(IDENTITY) is None


def test_damaged_files_are_kept_one_by_one(store: Store) -> None:
    path = store.result_path(IDENTITY)
    for n in (1, 2, 3):
        path.write_text(f"damage {n}")
        assert store.read_result(IDENTITY) is None
        assert path.with_name(f"{path.name}.corrupt-{n}").read_text() == f"damage {n}"


def test_a_result_under_another_identity_is_not_taken_for_it(store: Store, said: list[str]) -> None:
    store.write_result(a_result(IDENTITY))
    store.result_path(IDENTITY).rename(store.result_path(OTHER))
    assert store.read_result(OTHER) is None
    assert IDENTITY in said[0]


def test_a_store_that_only_reads_leaves_damaged_files_alone(store: Store, said: list[str]) -> None:
    path = store.result_path(IDENTITY)
    path.write_text("{")
    assert Store(store.out, said.append, read_only=True).read_result(IDENTITY) is None
    assert path.read_text() == "{"
    assert "does not count" in said[0]


def test_reading_for_a_report_changes_no_file(store: Store, said: list[str]) -> None:
    store.write_result(a_result())
    bad = store.result_path(OTHER)
    bad.write_text("{")
    assert [result.identity for result in read_results(store.out, said.append)] == [IDENTITY]
    assert bad.read_text() == "{"
    assert str(bad) in said[0]


def test_reading_a_folder_that_is_not_there_gives_nothing(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert read_suites(nowhere) == read_results(nowhere) == read_cells(nowhere) == read_failures(nowhere) == []
    assert not nowhere.exists()


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a/b", "", "ABCDEF0123456789", "0123", "x" * 300, "\x00", "ü" * 24]
)
def test_file_names_come_from_identities_only(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="identity"):
        store.result_path(name)
    with pytest.raises(ValueError, match="identity"):
        store.cell_folder(name)


def test_a_crash_while_writing_leaves_the_old_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store.out / "file"
    write_atomic(path, b"old")

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert not list(store.out.glob(".tmp-*"))


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
def test_a_full_disk_is_said_in_words_and_keeps_the_old_file(
    store: Store, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    store.write_result(a_result())

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(StoreError, match=r"(?s)disk .* full.*Free some space"):
            write_atomic(store.result_path(IDENTITY), b"new")
    assert store.read_result(IDENTITY) == a_result()
    assert not list((store.out / "results").glob(".tmp-*"))


def test_every_system_error_has_words() -> None:
    for number in (*files._REASONS, errno.EIO):  # pyright: ignore[reportPrivateUsage]
        message = str(files.translated(OSError(number, os.strerror(number)), Path("/some/where")))
        assert "/some/where" in message
        assert "Errno" not in message
        assert "\n" not in message


def test_what_a_killed_process_left_is_removed(store: Store) -> None:
    stale = store.out / "results" / ".tmp-999-dead"
    stale.write_text("half")
    os.utime(stale, (0, 0))
    fresh = store.out / "results" / ".tmp-999-alive"
    fresh.write_text("being written by another run")
    store.prepare()
    assert not stale.exists()
    assert fresh.exists()


def test_out_that_is_a_file_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="is a file"):
        Store(tmp_path / "file").prepare()
    with pytest.raises(StoreError, match="a part of this path is a file"):
        Store(tmp_path / "file" / "below").prepare()
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_out_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(StoreError, match="permissions"):
            Store(tmp_path / "out").prepare()
    finally:
        tmp_path.chmod(0o755)


def test_a_cell_is_held_by_one_at_a_time(store: Store) -> None:
    with store.lock(IDENTITY) as first:
        assert first
        with Store(store.out).lock(IDENTITY) as second:
            assert not second
        with Store(store.out).lock(OTHER) as other:
            assert other
    with Store(store.out).lock(IDENTITY) as again:
        assert again


def test_failures_are_recorded_and_go_when_there_are_none(store: Store) -> None:
    failure = Failure(stage="training", message="it broke", time="2026-01-01T00:00:00+00:00")
    store.write_failures(CellFailures(cell=CELL, failures=[failure]))
    assert store.read_failures(OTHER) == CellFailures(cell=CELL, failures=[failure])
    assert [each.cell for each in read_failures(store.out)] == [CELL]
    store.write_failures(CellFailures(cell=CELL, failures=[]))
    assert store.read_failures(OTHER) is None


def test_models_of_one_suite_accumulate_and_an_edited_model_replaces_itself(store: Store) -> None:
    first = CellKey(identity="a" * 24, model="a", task="t", seed=0)
    second = CellKey(identity="b" * 24, model="b", task="t", seed=0)
    edited = CellKey(identity="c" * 24, model="a", task="t", seed=0)
    store.write_suite(a_suite({"a": {"width": 1}}, [first]))
    store.write_suite(a_suite({"b": {"width": 1}}, [second]))
    (both,) = read_suites(store.out)
    assert set(both.models) == {"a", "b"}
    assert {cell.identity for cell in both.cells} == {"a" * 24, "b" * 24}
    store.write_suite(a_suite({"a": {"width": 2}}, [edited]))
    (now,) = read_suites(store.out)
    assert now.models == {"a": {"width": 2}, "b": {"width": 1}}
    assert {cell.identity for cell in now.cells} == {"b" * 24, "c" * 24}
    assert {entry["cell"] for entry in now.measurements} == {"b" * 24, "c" * 24}


def test_a_model_whose_cells_have_changed_keeps_none_of_its_earlier_ones(store: Store) -> None:
    before = CellKey(identity="a" * 24, model="a", task="t", seed=0)
    after = CellKey(identity="c" * 24, model="a", task="t", seed=0)
    for cell in (before, after):  # the same spec, whose module was edited in between
        store.write_suite(a_suite({"a": {"width": 1}}, [cell]))
    (now,) = read_suites(store.out)
    assert now.cells == [after]
    assert [entry["cell"] for entry in now.measurements] == [after.identity]


def test_a_cell_that_is_measured_in_another_way_keeps_none_of_its_earlier_measurements(store: Store) -> None:
    cell = CellKey(identity="a" * 24, model="a", task="t", seed=0)
    record = a_suite({"a": {"sites": 1}}, [cell])
    new = {"identity": "d" * 24, "cell": cell.identity, "protocol": "behaviour"}
    store.write_suite(record)
    store.write_suite(record.model_copy(update={"models": {"a": {"sites": 2}}, "measurements": [new]}))
    (now,) = read_suites(store.out)
    assert now.measurements == [new]


def test_two_suites_of_one_name_are_both_kept(store: Store) -> None:
    cell = CellKey(identity="c" * 24, model="a", task="t", seed=0)
    store.write_suite(a_suite({"a": {}}, [cell], identity="a" * 24))
    store.write_suite(a_suite({"a": {}}, [cell], identity="b" * 24))
    assert [record.identity for record in read_suites(store.out)] == ["a" * 24, "b" * 24]


def test_files_can_be_compared_line_by_line() -> None:
    text = render(a_result(metrics=[Metric(metric=m, value=1.0, unit="u", direction="none") for m in "abc"])).decode()
    assert json.loads(text)["metrics"][2]["metric"] == "c"
    assert sum(line.startswith('{"metric"') for line in text.splitlines()) == 3
