"""Strict reading of a family's parameters: unknown names, wrong types and values out of range are errors."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from .errors import TaskError

__all__ = ["Parameters", "check_target", "describe", "suggestion"]


class Parameters:
    """The parameters that a spec gives to a family, read one by one.

    Nothing is converted: `true` is not 1, `"3"` is not 3, 2.0 is not 2; a whole number is a number, though.

    Parameters
    ----------
    family : str
        Name of the family, for messages.
    given : mapping
        What the spec says.
    names : sequence of str
        Every parameter that the family knows.

    Raises
    ------
    TaskError
        For a name that the family does not know, with the closest one that it does.
    """

    def __init__(self, family: str, given: Mapping[str, Any], names: Sequence[str]) -> None:
        self._family = family
        self._given = given
        for name in given:
            if name not in names:
                known = f"it knows {', '.join(names)}" if names else "it has none"
                raise TaskError(
                    f"family {family!r} has no parameter {name!r}{suggestion(name, names)}; {known}", field=str(name)
                )

    def has(self, name: str) -> bool:
        """Whether the spec gives `name` a value other than null."""
        return self._given.get(name) is not None

    def integer(self, name: str, *, low: int, high: int, default: int | None = None) -> int:
        """A whole number from `low` to `high`; required where there is no `default`."""
        value = self._value(name, default, f"a whole number from {low} to {high}")
        if type(value) is bool or not isinstance(value, int):
            raise self._wrong(name, value, f"a whole number from {low} to {high}")
        if not low <= value <= high:
            raise self._wrong(name, value, f"from {low} to {high}")
        return int(value)

    def probability(self, name: str, *, default: float | None = None) -> float:
        """A number strictly between 0 and 1; required where there is no `default`."""
        wanted = "a number between 0 and 1, neither of them included"
        value = self._value(name, default, wanted)
        if type(value) is bool or not isinstance(value, int | float):
            raise self._wrong(name, value, wanted)
        if not (math.isfinite(value) and 0.0 < value < 1.0):
            raise self._wrong(name, value, wanted)
        return float(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self._value(name, default, "true or false")
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def text(self, name: str, *, default: str | None = None, choices: Sequence[str] = ()) -> str:
        """A text, one of `choices` where there are some; required where there is no `default`."""
        wanted = f"one of {', '.join(choices)}" if choices else "a text"
        value = self._value(name, default, wanted)
        if not isinstance(value, str) or not value:
            raise self._wrong(name, value, wanted)
        if choices and value not in choices:
            raise TaskError(
                f"parameter {name!r} of family {self._family!r} is {value!r}, must be {wanted}"
                f"{suggestion(value, choices)}",
                field=name,
            )
        return str(value)

    def permutations(self, name: str) -> list[tuple[int, ...]]:
        """A list of permutations of the same points, each the list of the images of 0, 1, 2 …; required."""
        wanted = "a list of permutations, each a list of the images of 0, 1, 2 … (identity of three points: [0, 1, 2])"
        value = self._value(name, None, wanted)
        if not isinstance(value, list | tuple) or not value:
            raise self._wrong(name, value, wanted)
        rows: list[tuple[int, ...]] = []
        for number, row in enumerate(cast("Sequence[Any]", value)):
            rows.append(self._permutation(f"entry {number} of parameter {name!r}", name, row))
            if len(rows[-1]) != len(rows[0]):
                raise TaskError(
                    f"entry {number} of parameter {name!r} moves {len(rows[-1])} points, entry 0 moves {len(rows[0])}; "
                    "all must permute the same points",
                    field=name,
                )
        return rows

    def _permutation(self, place: str, name: str, row: Any) -> tuple[int, ...]:
        images = cast("list[Any]", list(row) if isinstance(row, list | tuple) else [])  # pyright: ignore[reportUnknownArgumentType]
        whole = all(isinstance(image, int) and type(image) is not bool for image in images)
        if not images or not whole or sorted(images) != list(range(len(images))):
            raise TaskError(
                f"{place} of family {self._family!r} is {describe(row)}, must hold each of 0 … n-1 once", field=name
            )
        return tuple(int(image) for image in images)

    def _value(self, name: str, default: Any, wanted: str) -> Any:
        value = self._given.get(name)
        if name in self._given and value is None and default is not None:
            raise self._wrong(name, None, wanted)
        if value is None and default is None:
            raise TaskError(f"family {self._family!r} needs the parameter {name!r}: {wanted}", field=name)
        return default if value is None else value

    def _wrong(self, name: str, value: Any, wanted: str) -> TaskError:
        return TaskError(
            f"parameter {name!r} of family {self._family!r} is {describe(value)}, must be {wanted}", field=name
        )


def check_target(family: str, target: str, classes: Mapping[str, int]) -> str:
    """`target` itself, once it is known to be one of the state variables.

    Raises
    ------
    TaskError
        With the state variables that there are.
    """
    if target not in classes:
        raise TaskError(
            f"family {family!r} has no state variable {target!r} with these parameters"
            f"{suggestion(target, list(classes))}; it has {', '.join(classes)}",
            field="target",
        )
    return target


def describe(value: Any) -> str:
    """A value as a message shows it: its type in YAML's words and its first 60 characters."""
    kinds = ((bool, "truth value"), (int, "whole number"), (float, "number"), (str, "text"))
    if value is None:
        return "null"
    kind = next((word for kinds_type, word in kinds if isinstance(value, kinds_type)), None)
    kind = kind or ("list" if isinstance(value, list | tuple) else "mapping" if isinstance(value, Mapping) else "value")
    shown = repr(cast("object", value))
    return f"the {kind} {shown if len(shown) <= 60 else shown[:59] + '…'}"


def suggestion(name: object, names: Sequence[str]) -> str:
    """``" (did you mean 'x'?)"`` with the closest of `names`, or nothing."""
    close = difflib.get_close_matches(str(name), names, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
