"""A resolved spec as YAML that loads again: every default visible, nothing inherited any more."""

from __future__ import annotations

import json
import re
from textwrap import wrap
from typing import Any, cast

from pydantic import BaseModel

from .claims_schema import Claim, Expectation, MetricReference
from .located import Located
from .scalars import plain_scalar
from .schema import DATASET_FIELDS, TaskSpec, TrainingOverride

__all__ = ["dump_resolved", "dump_yaml", "resolved_values"]

_WIDTH = 120
_AS_WRITTEN = (TrainingOverride, Claim, Expectation, MetricReference)
"""What these leave out has no value of its own: a recipe's other settings, a claim's other comparisons."""
_FOLDABLE = re.compile(r"\S+(?: \S+)*")
_BARE = re.compile(r"[A-Za-z0-9_(][A-Za-z0-9_()./+*=^-]*(?:,? [A-Za-z0-9_(][A-Za-z0-9_()./+*=^-]*)*", re.ASCII)


def dump_resolved(located: Located) -> str:
    """The spec as YAML text with every default written out; loading it gives the same spec."""
    return dump_yaml(resolved_values(located.spec))


def resolved_values(spec: BaseModel) -> dict[str, Any]:
    """The spec as plain values, its kind and name first; what recipes and claims leave alone stays left out.

    So do the fields of a data set in a task that is drawn by its generator.
    """
    values = cast(dict[str, Any], _values(spec))
    if isinstance(spec, TaskSpec) and spec.source == "generator":  # it has no data set to name
        values = {key: value for key, value in values.items() if key not in DATASET_FIELDS}
    first = [key for key in ("kind", "name", "title", "description", "cite", "adapter") if key in values]
    last = [key for key in ("training",) if key in values]
    return {key: values[key] for key in [*first, *(key for key in values if key not in [*first, *last]), *last]}


def _values(value: Any) -> Any:
    if isinstance(value, BaseModel):
        names = value.model_fields_set if isinstance(value, _AS_WRITTEN) else type(value).model_fields.keys()
        return {name: _values(getattr(value, name)) for name in type(value).model_fields if name in names}
    if isinstance(value, dict):
        return {key: _values(entry) for key, entry in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_values(entry) for entry in cast(list[Any], value)]
    return value


def dump_yaml(values: dict[str, Any]) -> str:
    """Plain values as YAML: a mapping in block style, what fits on a line in flow style."""
    return "".join(line + "\n" for key, value in values.items() for line in _entry(key, value, 0))


def _entry(key: str, value: Any, depth: int) -> list[str]:
    indent, name = "  " * depth, _text(key)
    flow = f"{indent}{name}: {_flow(value)}"
    if isinstance(value, str) and len(flow) > _WIDTH and _FOLDABLE.fullmatch(value) and value.isprintable():
        lines = wrap(value, _WIDTH - len(indent) - 2, break_long_words=False, break_on_hyphens=False)
        return [f"{indent}{name}: >-", *(f"{indent}  {line}" for line in lines)]
    if not isinstance(value, dict | list) or not value:
        return [flow]
    nested = isinstance(value, dict) and any(
        isinstance(entry, dict | list) for entry in cast(dict[str, Any], value).values()
    )
    if len(flow) <= _WIDTH and not (nested and depth == 0):
        return [flow]
    if isinstance(value, dict):
        below = [
            line for under, entry in cast(dict[str, Any], value).items() for line in _entry(under, entry, depth + 1)
        ]
    else:
        below = [line for entry in cast(list[Any], value) for line in _item(entry, depth + 1)]
    return [f"{indent}{name}:", *below]


def _item(value: Any, depth: int) -> list[str]:
    indent = "  " * depth
    flow = f"{indent}- {_flow(value)}"
    if len(flow) <= _WIDTH or not isinstance(value, dict) or not value:
        return [flow]
    entries = cast(dict[str, Any], value).items()
    lines = [line for key, entry in entries for line in _entry(key, entry, depth + 1)]
    return [f"{indent}- {lines[0].lstrip()}", *lines[1:]]


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{_text(key)}: {_flow(entry)}" for key, entry in cast(dict[str, Any], value).items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(_flow(entry) for entry in cast(list[Any], value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return "null"
    return ("true" if value else "false") if isinstance(value, bool) else repr(value)


def _text(text: str) -> str:
    """A text as it is where it can be read in no other way; else in double quotes."""
    if _BARE.fullmatch(text) and "," not in text:
        try:
            if plain_scalar(text) == text and text != "<<":
                return text
        except ValueError:
            pass
    # YAML's double-quoted escapes contain JSON's; printable characters stay as they are.
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(
        c if c == " " or c.isprintable() else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
        for c in quoted
    )
