"""The committed JSON Schemas: ``python -m layerstate.suite.spec.json_schema`` writes them; a test checks them.

Editors use them to complete and check YAML; they are looser than the loader, which also knows the rules between fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter

from ...specs import FOLDER
from .fields import meaning, models_within
from .results import CellRecord, Result, SuiteRecord
from .schema import (
    ClaimsSpec,
    HuggingFaceModel,
    MambaSsmModel,
    ModelSpec,
    ProtocolSpec,
    ReferenceModel,
    SuiteSpec,
    TaskSpec,
    TorchModuleModel,
)

__all__ = ["SCHEMA_FOLDER", "json_schemas", "write_schemas"]

SCHEMA_FOLDER = FOLDER / "schema"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = {"type": "string", "minLength": 1}
_EXTENDS = {
    "anyOf": [_REFERENCE, {"type": "array", "items": _REFERENCE, "minItems": 1}],
    "description": "Name or path of a spec of the same kind, or a list of them, that this one builds on.",
}

Json = dict[str, Any]


def json_schemas() -> dict[str, Json]:
    """File name to JSON Schema: one for each kind of spec and each file that a run leaves behind."""
    specs: dict[str, tuple[Any, list[type[BaseModel]]]] = {
        "task": (TaskSpec, [TaskSpec]),
        "model": (ModelSpec, [ReferenceModel, TorchModuleModel, HuggingFaceModel, MambaSsmModel]),
        "protocol": (ProtocolSpec, [ProtocolSpec]),
        "suite": (SuiteSpec, [SuiteSpec]),
        "claims": (ClaimsSpec, [ClaimsSpec]),
    }
    records: dict[str, type[BaseModel]] = {"result": Result, "cell": CellRecord, "suite_record": SuiteRecord}
    schemas = {name: _extendable(_described(of, models), models) for name, (of, models) in specs.items()}
    schemas |= {name: _described(record, [record]) for name, record in records.items()}
    return {f"{name}.json": {"$schema": _DIALECT, "title": name.replace("_", " ")} | schemas[name] for name in schemas}


def write_schemas(folder: Path = SCHEMA_FOLDER) -> list[Path]:
    """Write every schema into `folder`; the paths written."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, schema in json_schemas().items():
        path = folder / name
        path.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        paths.append(path)
    return paths


def _described(of: Any, models: list[type[BaseModel]]) -> Json:
    """The schema of a type, every property with the line that follows its field."""
    schema = TypeAdapter(of).json_schema()
    for model in {found.__name__: found for root in models for found in models_within(root)}.values():
        target = cast(Json, schema["$defs"].get(model.__name__) if "$defs" in schema else None) or schema
        for name, entry in cast(Json, target.get("properties", {})).items():
            text = meaning(model, name)
            if text:
                entry["description"] = text
    return schema


def _extendable(schema: Json, models: list[type[BaseModel]]) -> Json:
    """A schema whose keys are all required, unless the spec extends another: then none but the kind is."""
    whole, partial = deepcopy(schema), deepcopy(schema)
    _rename(partial, lambda name: f"Partial{name}")
    _walk(partial, _relax)
    definitions = {**whole.pop("$defs", {}), **partial.pop("$defs", {})}
    roots = [
        partial,
        *(entry for name, entry in definitions.items() if name in {f"Partial{m.__name__}" for m in models}),
    ]
    for root in roots:
        if "properties" in root:
            root["properties"]["extends"] = _EXTENDS
    return {"$defs": definitions, "if": {"required": ["extends"]}, "then": partial, "else": whole}


def _walk(value: Any, change: Callable[[Json], None]) -> None:
    if isinstance(value, dict):
        change(cast(Json, value))
        for entry in cast(Json, value).values():
            _walk(entry, change)
    elif isinstance(value, list):
        for entry in cast(list[Any], value):
            _walk(entry, change)


def _relax(schema: Json) -> None:
    """Nothing is required, and a union need not be decided."""
    if isinstance(schema.get("required"), list):
        del schema["required"]
    if "discriminator" in schema:
        del schema["discriminator"]
        schema["anyOf"] = schema.pop("oneOf")


def _rename(schema: Json, renamed: Callable[[str], str]) -> None:
    prefix = "#/$defs/"

    def change(part: Json) -> None:
        if isinstance(part.get("$ref"), str):
            part["$ref"] = prefix + renamed(part["$ref"].removeprefix(prefix))

    _walk(schema, change)
    if "$defs" in schema:
        schema["$defs"] = {renamed(name): entry for name, entry in schema["$defs"].items()}


if __name__ == "__main__":
    for written in write_schemas():
        print(written)
