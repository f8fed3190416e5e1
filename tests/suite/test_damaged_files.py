"""A file that its schema lets through and that cannot be computed with: named and left out, or of no consequence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from layerstate.leaderboard import build_site
from layerstate.suite.claims.report import claims_text
from layerstate.suite.runner.compare import compare_text
from layerstate.suite.runner.formats import Format
from layerstate.suite.runner.gathered import gather
from layerstate.suite.runner.report import report_text
from layerstate.suite.runner.store import read_results, read_suites
from layerstate.suite.runner.timings import timings_text
from layerstate.suite.spec.load import list_specs
from layerstate.suite.spec.schema import ClaimsSpec
from layerstate.tasks.errors import LayerstateError

Place = tuple[str | int, ...]
GONE = object()
WRONG: list[Any] = [GONE, None, "x", "", -1, 1e308, 10**30, [], {}, True]
MEASURABLE = ("value", "low", "high")
SHOWN = 4
"""Entries of a list of metrics, say, that are damaged one by one; the others are like them."""


@pytest.fixture
def finished(workshop: Any) -> Path:
    workshop.suite(models=["./tiny.yaml", "./other.yaml"], seeds=[0, 1])
    workshop.spec("other", workshop.model_spec(), name="other", training={"learning_rate": 0.02})
    assert workshop.run().exit_code == 0
    return Path(workshop.out)


def places(content: Any, at: Place = ()) -> Iterator[Place]:
    """Every field, at any depth."""
    if at:
        yield at
    inner: Any = content.items() if isinstance(content, dict) else []
    if isinstance(content, list):
        inner = list(enumerate(content))[:SHOWN]
    for key, value in inner:
        yield from places(value, (*at, key))


def ways(at: Place) -> Iterator[Any]:
    """The ways to damage a field: a list with an entry less, or a share of -1, may be what was meant."""
    for value in WRONG:
        if not (value is GONE and isinstance(at[-1], int)) and not (value == -1 and at[-1] in MEASURABLE):
            yield value


def damaged(content: Any, at: Place, value: Any) -> Any:
    """A copy with another value at one place, or with nothing there."""
    changed = json.loads(json.dumps(content))
    inner = changed
    for key in at[:-1]:
        inner = inner[key]
    if value is GONE:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return changed


def numbers(out: Path, tell: Callable[[str], None] = lambda _text: None) -> dict[str, Any]:
    """What a user is told of the folder: the report, a comparison and what claims were measured at."""
    found: dict[str, Any] = {}
    claims = [spec.spec for spec in list_specs("claims") if isinstance(spec.spec, ClaimsSpec)][:1]
    for name, read in (
        ("report", lambda: report_text(out, Format.JSON, tell=tell)),
        ("compare", lambda: compare_text(gather(out, tell), ["tiny", "other"], out, Format.JSON)),
        ("claims", lambda: claims_text(claims, gather(out, tell), out, Format.JSON)),
        ("timings", lambda: timings_text(out, Format.JSON, tell=tell) and ""),
    ):
        try:
            found[name] = read()
        except LayerstateError as error:
            found[name] = f"refused: {error}"
    return found


def _test_each(
    out: Path, path: Path, read: Callable[[Callable[[str], None]], object], site: Path, *others: Path
) -> None:
    """Damage every field in every way; where the file is not left out with its name, the numbers are as before."""
    text = path.read_text("utf-8")
    content, before = json.loads(text), numbers(out)
    build_site([out, *others], site)
    harmless: list[tuple[Place, Any]] = []
    for at in places(content):
        for value in ways(at):
            path.write_text(json.dumps(damaged(content, at, value)), "utf-8")
            said: list[str] = []
            read(said.append)
            if said:
                assert said[0].startswith(f"{path} is left out: "), (at, value)
                assert len(said) == 1, (at, value, said)
            else:
                harmless.append((at, value))
    assert harmless
    # One way a field, and every thirtieth of the others: all of them take five minutes.
    first = {(at[:1], at[-1]): index for index, (at, _) in reversed(list(enumerate(harmless)))}
    for at, value in [harmless[index] for index in sorted({*first.values(), *range(0, len(harmless), 30)})]:
        path.write_text(json.dumps(damaged(content, at, value)), "utf-8")
        told: list[str] = []
        # What a file says of itself may be fine, and not be what the suite's record says of it.
        if numbers(out, told.append) != before:
            assert told, (at, value)
            assert all(f"{out}/results/" in each and " is left out: cell: " in each for each in told), (at, value)
    for wrong in WRONG:  # a whole site for each kind of damage, with all that were not left out in one file
        changed = content
        for at, value in harmless:
            if value is wrong and not any(at != other and other[: len(at)] == at for other, _ in harmless):
                changed = damaged(changed, at, value)
        path.write_text(json.dumps(changed), "utf-8")
        build_site([out, *others], site)
    path.write_text(text, "utf-8")


def test_a_damaged_result_is_left_out_with_its_name_or_changes_no_number(finished: Path, tmp_path: Path) -> None:
    path = sorted((finished / "results").glob("*.json"))[0]
    _test_each(finished, path, lambda tell: read_results(finished, tell), tmp_path / "site")


def test_a_damaged_suite_record_is_left_out_with_its_name_or_changes_no_number(finished: Path, tmp_path: Path) -> None:
    (path,) = (finished / "suites").glob("*.json")
    shutil.copytree(finished, tmp_path / "whole")  # so that there is a site also where the damaged suite is left out
    _test_each(finished, path, lambda tell: read_suites(finished, tell), tmp_path / "site", tmp_path / "whole")


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (("arrays",), {}, "arrays.correct/8: missing — 50 counts, one for each sequence would be right"),
        (("arrays", "correct/8", "data"), "x", "arrays.correct/8.data: "),
        (("arrays", "correct/8", "data"), "AAAA", "arrays.correct/8.data: "),
        (("arrays", "correct/8", "shape"), [-50], "arrays.correct/8.shape: [-50]"),
        (("arrays", "correct/8", "shape"), [25], "arrays.correct/8.data: packed array of shape [25] needs 25 bytes"),
        (("sites",), [], "sites: it names no sites"),
        (("specs",), {}, "specs.model: missing"),
        (("specs", "task", "lengths"), {}, "specs.task.lengths.train: Field required"),
        (("metrics", 0, "value"), 1e308, "metrics.0.value: 1e+308 — a number within ±1e15 would be right"),
        (("metrics", 0, "low"), 2.0, "metrics.0.low: 2 is above high"),
    ],
)
def test_what_is_wrong_is_said_and_what_would_be_right(finished: Path, at: Place, value: Any, said: str) -> None:
    path = sorted((finished / "results").glob("*.json"))[0]
    path.write_text(json.dumps(damaged(json.loads(path.read_text("utf-8")), at, value)), "utf-8")
    told: list[str] = []
    rest = numbers(finished, told.append)
    assert told[0].startswith(f"{path} is left out: {said}")
    assert "refused" not in str(rest["report"])[:20]
    assert "1 measurement missing" in str(rest["report"])
