"""Where the numbers of a metric stand, and so why a claim finds none at the coordinates that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..spec.results import Coordinate, Result
from ..spec.suggest import did_you_mean, listed, quoted

__all__ = ["Places", "filled"]

_SHOWN = 8


class Places:
    """The coordinates of all metrics in the results of a suite.

    Parameters
    ----------
    results : iterable of Result
        Of one suite.
    """

    def __init__(self, results: Iterable[Result]) -> None:
        self._found: dict[tuple[str, str, str], list[Result]] = {}
        for result in results:
            key = (result.cell.model, result.cell.task, result.protocol)
            self._found.setdefault(key, []).append(result)

    def absent(
        self, metric: str, model: str, task: str, at: Mapping[str, Coordinate], over: str | None = None
    ) -> str | None:
        """Why no seed has `protocol.metric` at these coordinates.

        None where one has it, with a value or with the reason why it has none, and where the protocol was not measured.
        """
        protocol, _, name = metric.partition(".")
        results = self._found.get((model, task, protocol), [])
        if not results:
            return None
        places = [(result, each.at) for result in results for each in result.metrics if each.metric == name]
        if not places:
            return f"{protocol} gave no {quoted(name)} there"
        wanted = {*at, *([over] if over is not None else [])}
        alike = [(result, place) for result, place in places if place.keys() == wanted]
        if not alike:
            return _other_coordinates(metric, wanted, [place for _, place in places])
        asked = [(filled(at, result), place) for result, place in alike]
        if any(all(place[key] == value for key, value in filled.items()) for filled, place in asked):
            return None
        for key in at:
            there = list(dict.fromkeys(place[key] for _, place in asked))
            value = asked[0][0][key]
            if all(filled[key] not in there for filled, _ in asked):
                return f"{metric} has no {key} {quoted(str(value))} there; it has {_some(there)}"
        return f"{metric} has no number at these coordinates together"


def _other_coordinates(metric: str, wanted: set[str], places: list[Mapping[str, Coordinate]]) -> str:
    known = list(dict.fromkeys(name for place in places for name in place))
    has = listed(known, "and") if known else "no coordinates"
    unknown = sorted(wanted - set(known))
    if unknown:
        advice = f" — {did_you_mean(unknown[0], known)}" if known else ""
        return f"{metric} has no coordinate {quoted(unknown[0])}, it has {has}{advice}"
    left = [name for name in known if name not in wanted]
    return f"{metric} has the coordinates {has}; {listed(left, 'and')} {'is' if len(left) == 1 else 'are'} missing"


def _some(values: list[Coordinate]) -> str:
    shown = listed([str(value) for value in values[:_SHOWN]], "and")
    return shown if len(values) <= _SHOWN else f"{shown} and {len(values) - _SHOWN} more"


def filled(at: Mapping[str, Coordinate], result: Result) -> dict[str, Coordinate]:
    """The coordinates with what the placeholders stand for."""
    task: dict[str, Any] = result.specs["task"]
    lengths: dict[str, Any] = task["lengths"]
    stands_for: dict[Coordinate, Coordinate] = {
        "$train": lengths["train"],
        "$longest": max(lengths["evaluate"]),
        "$target": task["target"],
        "$last": result.sites[-1],
    }
    return {name: stands_for.get(value, value) for name, value in at.items()}
