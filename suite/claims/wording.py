"""What is said of a claim and of the numbers behind it, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..spec.schema import Expectation
from ..spec.suggest import listed
from .evidence import Evidence
from .verdicts import Part

__all__ = ["apart", "counted", "expected_in_words", "left_out", "metric_in_words", "not_comparable"]


def expected_in_words(expectation: Expectation) -> tuple[str, float | None]:
    """What is expected, and the number to compare with if there is one."""
    if expectation.not_significant:
        return "an interval that contains 0", 0.0
    if expectation.at_least is not None:
        return f"at least {expectation.at_least:g}", expectation.at_least
    if expectation.at_most is not None:
        return f"at most {expectation.at_most:g}", expectation.at_most
    if isinstance(expectation.equals, int | float):
        within = f" ± {expectation.tolerance:g}" if expectation.tolerance else ""
        return f"{expectation.equals:g}{within}", float(expectation.equals)
    words = expectation.words or []
    where = {"every": f" at every {expectation.over}", "some": f" at some {expectation.over}"}
    return " or ".join(words) + where.get(expectation.reduce or "", ""), None


def metric_in_words(metric: str, at: dict[str, str | int]) -> str:
    """A metric with its coordinates."""
    places = ", ".join(f"{name} {str(value).removeprefix('$')}" for name, value in at.items())
    return f"{metric} ({places})" if places else metric


def counted(words: Sequence[str]) -> str:
    """The seeds' words, each once, with how many seeds say it."""
    found = Counter(words)
    return words[0] if len(found) == 1 else ", ".join(f"{word} ×{count}" for word, count in found.most_common())


def apart(part: Part) -> str:
    """What was found beside what is expected."""
    if isinstance(part.value, str):
        return f"{part.value}, expected {part.expected}"
    shown = "no value" if part.value is None else f"{part.value:.4g}"
    ends = "" if part.low is None or part.high is None else f" [{part.low:.4g}, {part.high:.4g}]"
    return f"{shown}{ends}, expected {part.expected}"


def not_comparable(values: Sequence[float | str], wanted: str) -> str:
    """Why a word can't be compared with a number, nor a number with a word."""
    words = list(dict.fromkeys(value if isinstance(value, str) else f"{value:.4g}" for value in values))
    of_words = any(isinstance(value, str) for value in values)
    return f"{listed(words, 'and')} {'is a word' if of_words else 'is a number'}, and {wanted} is expected"


def left_out(found: Evidence) -> str | None:
    """Which seeds do not count; None if all do."""
    return None if found.status == "ok" else f"some seeds are left out ({found.status}: {found.reason})"
