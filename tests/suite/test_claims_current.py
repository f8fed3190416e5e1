"""Of several records of one suite, those that no newer one has replaced are judged, once each."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from .test_claims_spec import CLAIM, claims_file

EXPECT = {"metric": "behaviour.accuracy", "at": {"length": "$train"}, "at_least": 0.0}


@pytest.fixture
def claims(workshop: Any) -> Path:
    return claims_file(workshop.root, CLAIM | {"expect": EXPECT})


def records(workshop: Any) -> set[Path]:
    return set((workshop.out / "suites").glob("*.json"))


def run(workshop: Any, *options: object, when: int) -> Path:
    """Run the suite; the record that it wrote, dated."""
    before = {path: path.stat().st_mtime_ns for path in records(workshop)}
    assert workshop.run(*options).exit_code == 0
    (written,) = [path for path in records(workshop) if before.get(path) != path.stat().st_mtime_ns]
    os.utime(written, (when, when))
    return written


def judged(workshop: Any, claims: Path) -> tuple[list[str], str]:
    """The identities of the records that were judged, and what was told."""
    done = workshop.layerstate("claims", workshop.out, "--claims", claims, "--format", "json")
    assert done.exit_code == 0, done.stderr
    return [found["identity"] for found in json.loads(done.stdout)["claims"]], done.stderr


def identity(record: Path) -> str:
    return record.stem.rpartition("-")[2]


def test_an_edited_suite_is_judged_as_it_is_now_and_the_stale_record_is_named(workshop: Any, claims: Path) -> None:
    stale = run(workshop, when=1000)
    workshop.task(sizes={"evaluate": 40})
    now = run(workshop, when=2000)
    assert judged(workshop, claims)[0] == [identity(now)]
    told = judged(workshop, claims)[1]
    assert f"{stale} is left out: it is stale" in told
    assert identity(now) in told
    table = workshop.layerstate("claims", workshop.out, "--claims", claims)
    assert table.stdout.count("Mine · on tiny_suite") == 1


def test_going_back_to_the_first_version_makes_the_other_stale(workshop: Any, claims: Path) -> None:
    first = run(workshop, when=1000)
    workshop.task(sizes={"evaluate": 40})
    run(workshop, when=2000)
    workshop.task()
    assert run(workshop, when=3000) == first
    assert judged(workshop, claims)[0] == [identity(first)]


@pytest.mark.parametrize("last", ["narrow", "wide"])
def test_a_variant_that_holds_all_the_results_stands_for_the_suite(workshop: Any, claims: Path, last: str) -> None:
    narrow = run(workshop, when=1000 if last == "wide" else 3000)
    wide = run(workshop, "--seed", 0, "--seed", 1, when=2000)
    assert wide != narrow
    assert judged(workshop, claims)[0] == [identity(wide)]


def test_variants_of_which_neither_holds_the_other_are_both_judged_and_told_apart(workshop: Any, claims: Path) -> None:
    variants = [run(workshop, "--seed", seed, when=1000 + seed) for seed in (1, 2)]
    found, told = judged(workshop, claims)
    assert sorted(found) == sorted(identity(path) for path in variants)
    assert "stale" not in told
    table = workshop.layerstate("claims", workshop.out, "--claims", claims).stdout
    assert all(f"on tiny_suite ({identity(path)})" in table for path in variants)
