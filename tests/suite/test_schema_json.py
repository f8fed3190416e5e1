"""The committed JSON Schemas are current, valid, and accept exactly what they should of the built-in specs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from layerstate.suite.spec.json_schema import SCHEMA_FOLDER, json_schemas
from layerstate.suite.spec.load import KINDS
from layerstate.suite.spec.names import builtin_files
from layerstate.suite.spec.nodes import plain
from layerstate.suite.spec.read import read_node

SCHEMAS = json_schemas()
MODEL: dict[str, Any] = {
    "kind": "model",
    "name": "m",
    "title": "M",
    "adapter": "reference",
    "architecture": {"type": "mamba", "blocks": 2, "width": 8},
    "training": {"learning_rate": 1e-3, "steps": 10},
}


def accepts(kind: str, value: Any) -> bool:
    return Draft202012Validator(SCHEMAS[f"{kind}.json"]).is_valid(value)


def test_the_committed_schemas_are_those_of_the_code() -> None:
    """If this fails: python -m layerstate.suite.spec.json_schema, and commit what it writes."""
    committed = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in SCHEMA_FOLDER.glob("*.json")}
    assert committed == SCHEMAS


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_valid_and_describes_its_fields(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert '"description": ' in json.dumps(SCHEMAS[name])


@pytest.mark.parametrize("kind", KINDS)
def test_every_built_in_spec_fits_the_schema_of_its_kind(kind: Any) -> None:
    for path in builtin_files(kind).values():
        assert accepts(kind, plain(read_node(Path(path)))), path


def test_unknown_and_missing_keys_are_refused() -> None:
    assert accepts("model", MODEL)
    assert not accepts("model", MODEL | {"typo": 1})
    assert not accepts("model", {key: value for key, value in MODEL.items() if key != "title"})
    assert not accepts("model", MODEL | {"architecture": {"type": "lstm", "blocks": 2, "width": 8}})
    assert not accepts("model", MODEL | {"architecture": {"type": "mamab", "blocks": 2, "width": 8}})


def test_a_spec_that_extends_another_need_not_have_all_keys_but_no_unknown_ones() -> None:
    child = {"kind": "model", "name": "c", "extends": "mamba", "architecture": {"conv1d": False}}
    assert accepts("model", child)
    assert accepts("model", child | {"extends": ["mamba", "./other.yaml"]})
    assert not accepts("model", child | {"architecture": {"conv1": False}})
    assert not accepts("model", child | {"extends": []})
    assert not accepts("model", {key: value for key, value in child.items() if key != "extends"})
