"""Whether a claim compares a metric with what it can be: numbers with a number, words with its words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from .claimed_coordinates import Declared, is_site
from .explain import Problem
from .nodes import Node
from .schema import Expectation, MetricSpec
from .suggest import did_you_mean_of, listed, quoted

__all__ = ["is_number", "value_of", "value_problems"]

_WORD_UNITS: dict[str, Literal["word", "site"]] = {"word": "word", "site": "site"}
_NUMBER_UNITS = ("share", "skill", "pp", "sites", "directions", "logits", "pairs")
_FOR_NUMBERS = "at_least, at_most or equals with a number"


def value_of(metric: MetricSpec) -> Literal["number", "word", "site"] | list[str] | None:
    """What the metric's values are: as declared, else as its unit says; None for a unit that says nothing."""
    if metric.value is not None:
        return metric.value
    return "number" if metric.unit in _NUMBER_UNITS else _WORD_UNITS.get(metric.unit)


def is_number(metric: MetricSpec) -> bool:
    """Whether its values are numbers, as far as its declaration tells."""
    return value_of(metric) in ("number", None)


def value_problems(around: Node, expectation: Expectation, declared: Declared) -> Iterator[Problem]:
    """What is wrong with what an expectation, written in `around`, compares the metric with."""
    kind = value_of(declared.metric)
    if kind is None:
        return
    words, node = expectation.words, around.nearest((expectation.comparison,))
    if words is None:
        if kind != "number":
            yield Problem(node.key, node.path, _not_a_number(declared, kind))
    elif kind == "number":
        quotes = "; write numbers without quotes" if any(_is_numeric(word) for word in words) else ""
        message = f"{quoted(declared.name)} is a number ({declared.metric.unit}), no word — "
        yield Problem(node.key, node.path, f"{message}{_FOR_NUMBERS} would be right{quotes}")
    else:
        for number, word in enumerate(words):
            message = _wrong_word(declared, kind, word)
            if message is not None:
                place = node.child(number) or node
                yield Problem(place.mark, place.path, message)


def _not_a_number(declared: Declared, kind: str | list[str]) -> str:
    protocol, _, name = declared.name.partition(".")
    if isinstance(kind, list):
        what, right = "a word", listed(kind)
    else:
        what, right = ("the name of a site", "names such as `block.0`") if kind == "site" else ("a word", "words")
    index = f"{name}_index"
    also = f", or the number {quoted(f'{protocol}.{index}')}" if index in declared.protocol.metrics else ""
    return f"{quoted(declared.name)} is {what}, no number — equals or one_of with {right}{also} would be right"


def _wrong_word(declared: Declared, kind: str | list[str], word: str) -> str | None:
    if isinstance(kind, list) and word not in kind:
        return f"{quoted(word)} is no word of {quoted(declared.name)} — {did_you_mean_of(word, kind)}"
    if kind == "site" and not is_site(word):
        return f"{quoted(word)} is no site — `embed`, `block.0` and so on would be right"
    return None


def _is_numeric(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
