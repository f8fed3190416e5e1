"""What pydantic found wrong, as plain sentences with the place in the YAML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from .fields import meaning, models_at
from .names import NAME_RULE
from .nodes import Key, Mark, Node, PlacedError, field_path, plain
from .read import describe
from .suggest import closest, did_you_mean, listed, quoted

__all__ = ["Problem", "problem_at", "problems_of", "spec_error"]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, with its place."""

    mark: Mark
    path: tuple[Key, ...]
    message: str

    def __str__(self) -> str:
        path = field_path(self.path)
        return f"{self.mark}: {path + ': ' if path else ''}{self.message}"


def spec_error(problems: Iterable[Problem]) -> PlacedError:
    """One error that lists all problems, one line each, in the order of the files."""
    ordered = sorted(problems, key=lambda problem: (str(problem.mark.file), problem.mark.line, problem.mark.column))
    return PlacedError("\n".join(dict.fromkeys(str(problem) for problem in ordered)))


def problem_at(root: Node, keys: Sequence[Key], message: str) -> Problem:
    """A problem with the value at `keys`, or with the deepest mapping on the way that exists."""
    node = root.nearest(keys)
    return Problem(node.mark, node.path, message)


_EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "none_required": "null",
}
_BOUNDS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
}


@dataclass(frozen=True)
class _Found:
    """An error with its place in the tree."""

    keys: tuple[Key, ...]
    node: Node
    details: ErrorDetails
    of_key: bool = False

    @property
    def is_type(self) -> bool:
        return self.details["type"] in _EXPECTED or self.details["type"] == "literal_error"


def problems_of(error: ValidationError, model: type[BaseModel], root: Node, at: tuple[Key, ...] = ()) -> list[Problem]:
    """The problems behind a validation error of the value at `at` in the tree `root`, which `model` describes."""
    base = root.nearest(at)
    found = [_locate(details, base) for details in error.errors(include_url=False, include_input=False)]
    found = _without_other_branches(found)
    unknown = [item for item in found if item.details["type"] == "extra_forbidden"]
    meant = {(item.keys[:-1], closest(str(item.keys[-1]), _options(model, item, base))) for item in unknown}
    problems: list[Problem] = []
    for keys, group in _by_place(found).items():
        first = group[0]
        if first.details["type"] == "missing":
            if (keys[:-1], str(keys[-1])) not in meant:
                problems.append(_missing(model, first, base))
        elif first.details["type"] == "extra_forbidden":
            advice = _key_advice(str(keys[-1]), _options(model, first, base), base.nearest(keys[:-1]))
            problems.append(Problem(first.node.key, first.node.path, f"unknown key — {advice}"))
        elif first.details["type"] == "union_tag_not_found":
            problems.append(_undecided(model, first, base))
        else:
            mark = first.node.key if first.of_key else first.node.mark
            problems.append(Problem(mark, first.node.path, _sentence(group)))
    return problems


def _locate(details: ErrorDetails, base: Node) -> _Found:
    """Follow pydantic's location through the tree; steps that name a union's member have no place in it."""
    node, keys = base, ()
    location = details["loc"]
    if details["type"] == "missing":
        location = location[:-1]
    context = details.get("ctx", {})
    rule: tuple[Key, ...] = context.get("field", ())
    if details["type"] == "union_tag_invalid":
        rule = (str(context["discriminator"]).strip("'"),)
    for key in (*location, *rule):
        below = node.child(key)
        if below is not None:
            node, keys = below, (*keys, key)
    if details["type"] == "missing":
        keys = (*keys, details["loc"][-1])
    return _Found(keys, node, details, of_key=bool(location) and location[-1] == "[key]")


def _without_other_branches(found: list[_Found]) -> list[_Found]:
    """Less the type errors of union members that the value was not meant for: another member got further."""

    def beaten(item: _Found) -> bool:
        further = (other for other in found if other.keys[: len(item.keys)] == item.keys)
        return item.is_type and any(len(other.keys) > len(item.keys) or not other.is_type for other in further)

    return [item for item in found if not beaten(item)]


def _by_place(found: list[_Found]) -> Mapping[tuple[Key, ...], list[_Found]]:
    groups: dict[tuple[Key, ...], list[_Found]] = {}
    for item in found:
        groups.setdefault(item.keys, []).append(item)
    return groups


def _options(model: type[BaseModel], item: _Found, base: Node) -> list[str]:
    """The keys that the mapping around an unknown key may have."""
    return [name for owner in models_at(model, item.keys[:-1], base) for name in owner.model_fields]


def _key_advice(key: str, options: list[str], around: Node) -> str:
    if ":" in key:
        return "a colon needs a space after it"
    if closest(key, options) is not None:
        return did_you_mean(key, options)
    left = [name for name in options if around.child(name) is None]
    return did_you_mean(key, left) if left else "remove it"


def _missing(model: type[BaseModel], item: _Found, base: Node) -> Problem:
    key = str(item.keys[-1])
    says = next((text for owner in models_at(model, item.keys[:-1], base) if (text := meaning(owner, key))), "")
    return Problem(item.node.key, item.node.path, f"the key {quoted(key)} is missing{' — ' + says if says else ''}")


def _undecided(model: type[BaseModel], item: _Found, base: Node) -> Problem:
    """A mapping that lacks the key which says what it is."""
    key = str(item.details.get("ctx", {}).get("discriminator")).strip("'")
    members = [owner.model_fields[key].annotation for owner in models_at(model, item.keys, base)]
    words = [word for annotation in members for word in get_args(annotation)]
    near = closest(key, [written for written, _ in item.node.items()])
    hint = f" ({quoted(near)} is not it)" if near is not None else ""
    return Problem(
        item.node.key, item.node.path, f"the key {quoted(key)} is missing{hint} — {listed(words)} would be right"
    )


def _sentence(group: list[_Found]) -> str:
    value = plain(group[0].node)
    kinds = [item.details["type"] for item in group]
    if all(item.is_type for item in group):
        return _wrong_type(value, group)
    item = next(item for item in group if not item.is_type)
    return _wrong_value(value, item, kinds[group.index(item)])


def _words(details: ErrorDetails) -> list[str]:
    """The words that a literal or a discriminated union allows."""
    context = details.get("ctx", {})
    return re.findall(r"'([^']*)'", str(context.get("expected", context.get("expected_tags", ""))))


def _wrong_type(value: Any, group: list[_Found]) -> str:
    words = [word for item in group for word in _words(item.details)]
    kinds = list(dict.fromkeys(_EXPECTED[item.details["type"]] for item in group if item.details["type"] in _EXPECTED))
    right = " or ".join([*([listed(words)] if words else []), *kinds])
    if isinstance(value, str) and words:
        best = closest(value, words)
        right = f"did you mean {quoted(best)}?" if best is not None and not kinds else f"{right} would be right"
        if best is not None and len(words) > 1:
            right += f" ({listed(words)})"
        return f"{describe(value)} — {right}"
    return f"{describe(value)} — {right} would be right{_type_hint(value, kinds)}"


def _type_hint(value: Any, kinds: list[str]) -> str:
    wants_number = "a whole number" in kinds or "a number" in kinds
    if isinstance(value, str) and wants_number:
        if re.fullmatch(r"[0-9]+(_[0-9]+)+", value):
            return f"; write {value.replace('_', '')}, without underscores"
        if re.fullmatch(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?", value):
            return "; write it without quotes"
    if isinstance(value, float) and kinds == ["a whole number"] and value.is_integer() and abs(value) < 2**53:
        return f"; write {int(value)}"
    if isinstance(value, bool | int | float) and "a text" in kinds:
        return "; put it in quotes if it is a text"
    if kinds == ["a list"] and value is not None and not isinstance(value, dict):
        return "; put it in square brackets"
    return ""


def _wrong_value(value: Any, item: _Found, kind: str) -> str:
    details, context = item.details, item.details.get("ctx", {})
    if kind in _BOUNDS:
        return f"{describe(value)} — {_BOUNDS[kind].format(**context)} would be right"
    if kind == "too_short":
        least = int(context["min_length"])
        return f"{describe(value)} — at least {'one entry is' if least == 1 else f'{least} entries are'} needed"
    if kind == "string_too_short":
        return "an empty text — a text would be right"
    if kind in ("string_too_long", "too_long"):
        return f"{len(value)} long — at most {context['max_length']} would be right"
    if kind == "string_pattern_mismatch":
        return _wrong_text(value if not item.of_key else str(item.keys[-1]), str(context["pattern"]))
    if kind == "union_tag_invalid":
        return (
            f"{quoted(str(context.get('tag')))} is unknown — {did_you_mean(str(context.get('tag')), _words(details))}"
        )
    if kind == "value_error":
        return str(context["error"])
    return details["msg"]


def _wrong_text(text: str, pattern: str) -> str:
    if pattern == r"^[^\r\n]*$":
        return f"{describe(text)} — one line would be right"
    if pattern.startswith("^[0-9a-f]{64}"):
        return f"{describe(text)} — 64 hexadecimal digits in lower case would be right"
    if pattern.startswith("^[A-Za-z0-9._/-]"):
        return f"{describe(text)} — a commit, branch or tag would be right"
    return f"{describe(text)} — a name has {NAME_RULE}"
