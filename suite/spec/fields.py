"""Which keys a spec may have at a path, and what they mean: read from the models of schema.py."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel

from .nodes import Key, Node

__all__ = ["meaning", "models_at", "models_within"]

Model = type[BaseModel]


def models_at(root: Model, keys: Sequence[Key], node: Node) -> list[Model]:
    """The models that may describe the mapping at `keys`: one, or all members of a union that is left undecided."""
    models: list[Model] = [root]
    annotations: list[Any] = []
    for key in keys:
        if isinstance(key, str) and models:
            annotations = [model.model_fields[key].annotation for model in models if key in model.model_fields]
        else:
            annotations = [entry for annotation in annotations for entry in _entries(annotation)]
        node = node.child(key) or node
        models = _decided([model for annotation in annotations for model in _members(annotation)], node)
    return models


def models_within(root: Model) -> list[Model]:
    """`root` and every model that its fields hold, at any depth, each once."""
    found: list[Model] = []

    def visit(model: Model) -> None:
        if model in found:
            return
        found.append(model)
        for field in model.model_fields.values():
            for member in _all_members(field.annotation):
                visit(member)

    visit(root)
    return found


def _alternatives(annotation: Any) -> list[Any]:
    """The members of a union, annotations peeled off."""
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [member for part in get_args(annotation) for member in _alternatives(part)]
    return [annotation]


def _members(annotation: Any) -> list[Model]:
    return [part for part in _alternatives(annotation) if isinstance(part, type) and issubclass(part, BaseModel)]


def _entries(annotation: Any) -> list[Any]:
    """The types of the entries of a list or mapping type."""
    containers = [part for part in _alternatives(annotation) if get_origin(part) in (list, dict, tuple)]
    return [get_args(part)[-1] for part in containers if get_args(part)]


def _all_members(annotation: Any) -> list[Model]:
    below = [member for entry in _entries(annotation) for member in _all_members(entry)]
    return _members(annotation) + below


def _decided(models: list[Model], node: Node) -> list[Model]:
    """The members whose one-word fields (`type: mamba`) agree with what was written; all of them if none does."""

    def agrees(model: Model) -> bool:
        for name, field in model.model_fields.items():
            below = node.child(name)
            if get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1 and below is not None:
                return below.value in get_args(field.annotation)
        return False

    return [model for model in models if agrees(model)] or models


def meaning(model: Model, field: str) -> str:
    """The one-line docstring that follows the field in its class, or an empty text."""
    for owner in model.__mro__:
        file = inspect.getsourcefile(owner) if field in inspect.get_annotations(owner) else None
        if file is not None:
            return _meanings(Path(file)).get((owner.__name__, field), "")
    return ""


@cache
def _meanings(file: Path) -> Mapping[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ClassDef):
            for before, after in zip(statement.body, statement.body[1:], strict=False):
                if (
                    isinstance(before, ast.AnnAssign)
                    and isinstance(before.target, ast.Name)
                    and isinstance(after, ast.Expr)
                    and isinstance(after.value, ast.Constant)
                ):
                    found[statement.name, before.target.id] = cast(str, after.value.value)
    return found
