"""Finding families, and reading their parameters strictly."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from layerstate.tasks import Batch, TaskError, digest, draw, families, family_source_digest, load_task
from layerstate.tasks import families as families_function
from layerstate.tasks.code_depth import CodeDepth
from layerstate.tasks.registry import _installed  # pyright: ignore[reportPrivateUsage]

OWN_FAMILY = """
import numpy as np
from dataclasses import dataclass
from layerstate.tasks import Batch
from layerstate.tasks.parameters import Parameters

@dataclass
class Modulo:
    modulus: int
    family = "modulo"
    version = 3
    target = "sum"
    vocabulary = ("0", "1")

    @property
    def classes(self):
        return {"sum": self.modulus}

    def sample(self, n, length, rng):
        tokens = rng.integers(0, 2, (n, length))
        return Batch(tokens, {"sum": np.cumsum(tokens, axis=1) % self.modulus})

    def corrupt(self, batch, position, rng):
        raise NotImplementedError

def build(params, target):
    return Modulo(Parameters("modulo", params, ("modulus",)).integer("modulus", low=2, high=9))
"""


@pytest.fixture
def own_family(tmp_path: Path) -> str:
    (tmp_path / "modulo.py").write_text(OWN_FAMILY)
    return "modulo.py:build"


def test_the_built_in_families() -> None:
    assert {"code_depth", "dyck", "flip_flop", "groups", "parity"} <= set(families())
    assert families()["dyck"] == "layerstate.tasks.dyck:build"


def test_a_family_is_found_by_its_file(own_family: str, tmp_path: Path) -> None:
    task = load_task(own_family, {"modulus": 3}, "sum", base=tmp_path)
    assert (task.family, task.version, task.classes) == ("modulo", 3, {"sum": 3})
    assert isinstance(draw(task, "evaluate", 5, 12, seed=0), Batch)
    with pytest.raises(TaskError, match=r"no parameter 'modulo' \(did you mean 'modulus'\?\)"):
        load_task(own_family, {"modulo": 3}, "sum", base=tmp_path)


def test_the_digest_of_a_file_changes_with_its_bytes(own_family: str, tmp_path: Path) -> None:
    first = family_source_digest(own_family, tmp_path)
    assert first == hashlib.sha256(OWN_FAMILY.encode()).hexdigest()
    (tmp_path / "modulo.py").write_text(OWN_FAMILY.replace("version = 3", "version = 4"))
    assert family_source_digest(own_family, tmp_path) != first
    assert load_task(own_family, {"modulus": 3}, "sum", base=tmp_path).version == 4
    assert family_source_digest("dyck") is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def build(params, target:", "import failed.*SyntaxError"),
        ("import no_such_package", "import failed.*No module named 'no_such_package'"),
        ("raise SystemExit(3)", "import failed"),
        ("built = 1\ndef bild(params, target): ...", r"no function 'build' \(did you mean 'bild'\?\)"),
        ("def build(params, target): return 1 / 0", "build failed at .*ZeroDivisionError"),
        ("def build(params, target): return object()", "built a object without family, version, target"),
        ("def build(params): ...", "build failed.*TypeError"),
    ],
)
def test_a_broken_file_is_one_clear_error(source: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(source)
    with pytest.raises(TaskError, match=message) as caught:
        load_task("broken.py:build", {}, "x", base=tmp_path)
    assert caught.value.field == "family"


@pytest.mark.parametrize(
    ("family", "message"),
    [
        ("dyk", r"no family 'dyk' \(did you mean 'dyck'\?\); there are code_depth, dyck"),
        ("", "no family ''"),
        ("missing.py:build", "cannot read the family's file"),
        ("modulo.py", "must be a name or path/to/file.py:build"),
        ("../x/modulo", "must be a name or path/to/file.py:build"),
        ("modulo.py:", "must be a name or path/to/file.py:build"),
    ],
)
def test_a_family_that_is_not_there_is_an_error(family: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=message) as caught:
        load_task(family, {}, "x", base=tmp_path)
    assert caught.value.field == "family"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Function that pretends these entry points were installed."""

    def pretend(*points: tuple[str, str]) -> None:
        found = [metadata.EntryPoint(name, value, "layerstate.tasks") for name, value in points]
        monkeypatch.setattr(metadata, "entry_points", lambda group: found if group == "layerstate.tasks" else [])
        _installed.cache_clear()

    yield pretend
    _installed.cache_clear()


def test_a_family_is_found_by_its_entry_point(installed: Any) -> None:
    installed(("balanced", "layerstate.tasks.dyck:build"))
    assert families_function()["balanced"] == "layerstate.tasks.dyck:build"
    assert load_task("balanced", {"max_depth": 3}, "depth").classes["depth"] == 4


@pytest.mark.parametrize("points", [[("dyck", "other:build")], [("mine", "a:build"), ("mine", "b:build")]])
def test_two_families_of_one_name_are_an_error(installed: Any, points: list[tuple[str, str]]) -> None:
    installed(*points)
    with pytest.raises(TaskError, match=f"two families are called '{points[0][0]}'"):
        load_task(points[0][0], {}, "depth")
    with pytest.raises(TaskError, match="two families are called"):
        families_function()


def test_a_target_that_the_family_has_not_is_an_error() -> None:
    for family, target in (("dyck", "dept"), ("parity", "sum"), ("groups", "sign"), ("flip_flop", "x")):
        params = {"group": "s3"} if family == "groups" else {}
        with pytest.raises(TaskError, match=f"no state variable '{target}'") as caught:
            load_task(family, params, target)
        assert caught.value.field == "target"


@pytest.mark.parametrize(
    ("family", "params", "field"),
    [
        ("parity", {"probability_of_one": 0.0}, "probability_of_one"),
        ("parity", {"probability_of_one": 1}, "probability_of_one"),
        ("parity", {"probability_of_one": float("nan")}, "probability_of_one"),
        ("parity", {"probability_of_one": "0.5"}, "probability_of_one"),
        ("parity", {"probability_of_one": None}, "probability_of_one"),
        ("parity", {"probability": 0.5}, "probability"),
        ("flip_flop", {"values": 1}, "values"),
        ("flip_flop", {"values": False}, "values"),
        ("flip_flop", {"initial": 2}, "initial"),
        ("flip_flop", {"write_probability": 0.6, "read_probability": 0.6}, "read_probability"),
        ("code_depth", {}, "source"),
        ("code_depth", {"source": "hubb"}, "source"),
        ("code_depth", {"source": "embedded"}, "sha256"),
        ("code_depth", {"source": "embedded", "sha256": "AB" * 32}, "sha256"),
        ("code_depth", {"source": "embedded", "sha256": "ab" * 32, "dataset": "x"}, "dataset"),
        ("code_depth", {"source": "embedded", "sha256": "ab" * 32, "max_depth": 0}, "max_depth"),
        ("code_depth", {"source": "hub", "dataset": "x", "files": "*", "functions": 3}, "revision"),
        ("code_depth", {"source": "hub", "dataset": "x", "files": "*", "revision": "r", "functions": 0}, "functions"),
    ],
)
def test_a_wrong_parameter_is_an_error_at_its_name(family: str, params: dict[str, Any], field: str) -> None:
    target = {"parity": "parity", "flip_flop": "memory", "code_depth": "depth"}[family]
    with pytest.raises(TaskError, match=f"'{field}'|^{field}|{field} ") as caught:
        load_task(family, params, target)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("family", "target", "base", "change"),
    [
        ("parity", "parity", {}, {"probability_of_one": 0.4}),
        ("groups", "product", {"group": "z4"}, {"group": "z5"}),
        ("groups", "product", {"group": "z4"}, {"sign": False, "identity_probability": 0.25}),
        ("groups", "product", {"group": "s3"}, {"sign": True}),
        ("groups", "product", {"generators": [[1, 2, 0]]}, {"generators": [[1, 0, 2]]}),
        ("groups", "product", {"elements": [[0, 1, 2], [1, 2, 0], [2, 0, 1]]}, {"elements": [[0, 1], [1, 0]]}),
        ("flip_flop", "memory", {}, {"values": 3}),
        ("flip_flop", "memory", {}, {"write_probability": 0.2}),
        ("flip_flop", "memory", {}, {"read_probability": 0.2}),
        ("flip_flop", "memory", {}, {"initial": 1}),
        ("dyck", "depth", {}, {"bracket_types": 3}),
        ("dyck", "depth", {}, {"max_depth": 4}),
    ],
)
def test_every_parameter_changes_the_bytes(
    family: str, target: str, base: dict[str, Any], change: dict[str, Any]
) -> None:
    one, other = (load_task(family, params, target) for params in (base, base | change))
    assert digest(draw(one, "train", 64, 40, seed=0)) != digest(draw(other, "train", 64, 40, seed=0))


def test_building_a_task_over_data_reads_no_data() -> None:
    task = load_task("code_depth", {"source": "embedded", "sha256": "ab" * 32}, "depth")
    assert isinstance(task, CodeDepth)
    assert task.vocabulary[:2] == ("(", ")")
