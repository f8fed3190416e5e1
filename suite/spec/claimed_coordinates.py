"""Whether the coordinates that claims name are ones that the metric has, with values that they can take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .explain import Problem
from .nodes import Node
from .read import describe
from .schema import MetricSpec, ProtocolSpec
from .suggest import did_you_mean, did_you_mean_of, listed, quoted

__all__ = ["PLACEHOLDERS", "Declared", "coordinate_problems", "is_site"]

PLACEHOLDERS = {"$train": "length", "$longest": "length", "$target": "variable", "$last": "site"}
"""What stands for a value of the task or model, and the kind of coordinate that it can be."""
_SITE = re.compile(r"embed|block\.(0|[1-9][0-9]{0,5})")


@dataclass(frozen=True)
class Declared:
    """A metric as its protocol declares it."""

    name: str
    """protocol.metric"""
    protocol: ProtocolSpec
    metric: MetricSpec

    @property
    def coordinates(self) -> list[str] | None:
        """All that its numbers may have; None where nothing is declared."""
        return None if self.metric.at is None else [*self.metric.at, *self.metric.sometimes]


def is_site(text: str) -> bool:
    """Whether a site can have this name."""
    return _SITE.fullmatch(text) is not None


def coordinate_problems(
    around: Node, declared: Declared, at: Mapping[str, str | int], over: str | None, *, own: bool = True
) -> Iterator[Problem]:
    """What is wrong with the coordinates at which a claim looks at a metric.

    Parameters
    ----------
    around : Node
        The mapping in which `metric` is written, and `at` and `over` if they are.
    declared : Declared
        The metric.
    at : mapping
        Its coordinates.
    over : str or None
        The coordinate all of whose values are looked at.
    own : bool
        Whether `at` and `over` are written there; if not they come from the expectation around it.
    """
    at_node, here = around.child("at") or around.nearest(("metric",)), around.nearest(("metric",))
    if over is not None and over in at:
        message = f"`over` looks at all of {quoted(over)}, so it can't stand in `at` too — remove it from one of them"
        yield _problem(around.child("over") or at_node, message)
        return
    known = declared.coordinates
    names = [*at, *([over] if over is not None else [])]
    wrong = [name for name in names if known is not None and name not in known]
    for name in wrong:
        node = at_node.child(name) if own and name != over else None
        if not own or node is None:
            node = around.child("over") if name == over and own else here
        yield Problem((node or here).key, (node or here).path, _no_coordinate(declared, name, own))
    for name, value in at.items():
        message = None if name in wrong else _wrong_value(declared, name, value)
        if message is not None and own:
            yield _problem(at_node.child(name) or at_node, message)
    missing = [name for name in declared.metric.at or [] if name not in names]
    if missing and not wrong:
        yield _problem(at_node, _lacks(declared, missing, own))


def _problem(node: Node, message: str) -> Problem:
    return Problem(node.mark, node.path, message)


def _no_coordinate(declared: Declared, name: str, own: bool) -> str:
    known = declared.coordinates or []
    if not known:
        right = "leave it out" if own else "write `at: {}` here"
        return f"{quoted(declared.name)} has no coordinates, so no {quoted(name)} — {right}"
    message = f"{quoted(declared.name)} has no coordinate {quoted(name)} — {did_you_mean_of(name, known)}"
    return message if own else f"{message}; the expectation's `at` and `over` hold here too, unless `at` is given here"


def _lacks(declared: Declared, missing: list[str], own: bool) -> str:
    example = ", ".join(f"{name}: {_example(declared, name)}" for name in missing)
    message = f"{quoted(declared.name)} stands at {listed(declared.metric.at or [], 'and')}; {listed(missing, 'and')} "
    message += f"{'is' if len(missing) == 1 else 'are'} missing — {{{example}}} in `at`"
    return f"{message}, say, would be right{'' if own else ' (what is left out is as in the expectation)'}"


def _example(declared: Declared, name: str) -> str:
    kind = declared.protocol.coordinates.get(name, "word")
    if isinstance(kind, list):
        return kind[0]
    return {"site": "$last", "length": "$train", "variable": "$target", "number": "1"}.get(kind, "…")


def _wrong_value(declared: Declared, name: str, value: str | int) -> str | None:
    """What is wrong with a coordinate's value; None if nothing can be said against it."""
    kind = declared.protocol.coordinates.get(name) if declared.metric.at is not None else None
    text = value if isinstance(value, str) else None
    if isinstance(kind, list):
        if value in kind:
            return None
        return f"{describe(value)} — {did_you_mean_of(str(value), kind)}"
    fitting = [word for word, of in PLACEHOLDERS.items() if kind in (None, of)]
    if text is not None and text.startswith("$"):
        if text in fitting:
            return None
        if text in PLACEHOLDERS:
            return f"{quoted(text)} stands for a {PLACEHOLDERS[text]} — {_right(name, kind, fitting)}"
        advice = did_you_mean(text, fitting) if fitting else f"no such word stands for a {quoted(name)}"
        return f"{quoted(text)} stands for nothing — {advice}"
    is_wrong = {
        "site": text is None or not is_site(text),
        "length": text is not None or (isinstance(value, int) and value < 1),
        "number": text is not None,
        "variable": text is None,
        "word": text is None,
    }
    if not is_wrong.get(kind or "", False):
        return None
    digits = text is not None and re.fullmatch(r"[0-9]+", text) is not None and kind in ("length", "number")
    return f"{describe(value)} — {_right(name, kind, fitting)}{'; write it without quotes' if digits else ''}"


def _right(name: str, kind: str | None, fitting: list[str]) -> str:
    any_of = {"site": "`embed`, `block.0` and so on", "length": "a length, a whole number"}
    any_of |= {"variable": "a state variable's name", "number": "a whole number", "word": "a text"}
    options = any_of.get(kind or "", f"a {name}")
    return f"{options}{f', or {listed(fitting)}' if fitting else ''} would be right"
