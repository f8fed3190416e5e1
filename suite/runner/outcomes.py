"""Whether what a protocol gave can be written down as it is: nothing is converted, cut off or dropped in silence."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import Any, cast, get_args

import numpy as np

from ..protocols import Outcome, Reading
from ..spec.results import Status
from .errors import CellFailed

__all__ = ["checked"]

STATUSES: tuple[str, ...] = get_args(Status)
WITHOUT_VALUE = ("undefined", "failed")
INT32 = np.iinfo(np.int32)
ROUNDING = 1e-9
"""How far, relative to its size, a value may lie outside its interval before it is more than the last digits."""


def checked(outcome: object, protocol: str) -> Outcome:
    """What `measure` returned, if results can hold it.

    Parameters
    ----------
    outcome : object
        Whatever it is.
    protocol : str
        Its name, for the message.

    Raises
    ------
    CellFailed
        Names the protocol, the metric, what was found and what would be right.
    """
    if not isinstance(outcome, Outcome):
        raise _wrong(protocol, f"returns {_shown(outcome)}", "an Outcome with its readings")
    readings = cast(object, outcome.readings)
    if not isinstance(readings, list | tuple):
        raise _wrong(protocol, f"gives {_shown(readings)} as readings", "a list of Reading")
    if not readings:
        raise _wrong(protocol, "gives no reading", "at least one, without a value and with a reason if there is none")
    for number, reading in enumerate(cast("list[object]", readings), 1):
        if not isinstance(reading, Reading):
            raise _wrong(protocol, f"gives {_shown(reading)} as reading {number}", "a Reading")
        _check_reading(protocol, reading)
    _check_arrays(protocol, outcome.arrays)
    return outcome


def _check_reading(protocol: str, reading: Reading) -> None:
    if not isinstance(cast(object, reading.metric), str):
        raise _wrong(protocol, f"gives {_shown(reading.metric)} as the name of a metric", "a text")
    who = f"{protocol} gives {reading.metric}{_place(reading.at)}"
    _check_coordinates(who, reading.at)
    _check_value(who, reading)
    _check_interval(who, reading)
    n: object = reading.n
    if n is not None and not (_is_whole(n) and int(cast(Any, n)) >= 1):
        raise _wrong(who, f"with n = {_shown(n)}", "a whole number from 1, or None")
    _check_status(who, reading)


def _check_coordinates(who: str, at: object) -> None:
    if not isinstance(at, Mapping):
        raise _wrong(who, f"with the coordinates {_shown(at)}", "a mapping such as {'length': 40}")
    for name, place in cast("Mapping[object, object]", at).items():
        if not isinstance(name, str):
            raise _wrong(who, f"with a coordinate called {_shown(name)}", "a text")
        if not isinstance(place, str) and not _is_whole(place):
            raise _wrong(who, f"with the coordinate {name} = {_shown(place)}", "a whole number or a text")


def _check_value(who: str, reading: Reading) -> None:
    value: object = reading.value
    if value is not None and not isinstance(value, str) and not _is_number(value):
        raise _wrong(who, f"with the value {_shown(value)}", "a number such as float(value), a word, or None")


def _check_interval(who: str, reading: Reading) -> None:
    """Its ends are numbers in order, around a value; where there is no value, an end that is none says no more."""
    value: object = reading.value
    ends: dict[str, object] = {"low": reading.low, "high": reading.high}
    for name, end in ends.items():
        if end is not None and not _is_number(end):
            raise _wrong(who, f"with {name} = {_shown(end)}", "a number such as float(value), or None")
    given = {name: float(cast(Any, end)) for name, end in ends.items() if end is not None}
    if not _is_number(value) or not math.isfinite(cast(Any, value)):
        around = [name for name, end in given.items() if math.isfinite(end)]
        if around:
            raise _wrong(
                who, f"with the value {_shown(value)} and {_interval(reading)}", "no interval without a number"
            )
        return
    for name, end in given.items():
        if not math.isfinite(end):
            raise _wrong(who, f"with {name} = {end}", "a finite number, or None where there is no interval")
    low, high = given.get("low", -math.inf), given.get("high", math.inf)
    if low > high:
        raise _wrong(who, f"with {_interval(reading)}", "low at most high")
    number = float(cast(Any, value))
    slack = ROUNDING * max(1.0, abs(number))
    if not low - slack <= number <= high + slack:
        raise _wrong(who, f"with the value {number:g} and {_interval(reading)}", "an interval around its value")


def _check_status(who: str, reading: Reading) -> None:
    status, reason = cast(object, reading.status), cast(object, reading.reason)
    if status not in STATUSES:
        raise _wrong(who, f"with the status {_shown(status)}", f"one of {', '.join(STATUSES)}")
    if reason is not None and not isinstance(reason, str):
        raise _wrong(who, f"with the reason {_shown(reason)}", "a text, or None")
    if status in WITHOUT_VALUE and reading.value is not None:
        raise _wrong(who, f"with the status {status} and the value {_shown(reading.value)}", "the value None")
    if status != "ok" and not reason:
        raise _wrong(who, f"with the status {status} and no reason", "a reason that says why")


def _check_arrays(protocol: str, arrays: object) -> None:
    if not isinstance(arrays, Mapping):
        raise _wrong(protocol, f"gives {_shown(arrays)} as arrays", "a mapping from names to NumPy arrays")
    for name, values in cast("Mapping[object, object]", arrays).items():
        if not isinstance(name, str):
            raise _wrong(protocol, f"gives an array called {_shown(name)}", "a text")
        if not isinstance(values, np.ndarray):
            raise _wrong(protocol, f"gives the array {name} as {_shown(values)}", "a NumPy array of whole numbers")
        array = cast("np.ndarray[Any, np.dtype[Any]]", values)
        if array.dtype.kind not in "iu":
            right = "whole numbers: counts, one a sequence, such as values.astype(np.int64)"
            raise _wrong(protocol, f"gives the array {name} of {array.dtype}", right)
        if array.size and not INT32.min <= int(array.min()) <= int(array.max()) <= INT32.max:
            found = f"with {int(array.min())} to {int(array.max())}"
            raise _wrong(protocol, f"gives the array {name} {found}", f"{INT32.min} to {INT32.max}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    """Whether it is one number that a float holds: no truth value, and no array or tensor of one."""
    if not _is_whole(value) and not isinstance(value, float | np.floating):
        return False
    try:
        float(cast(Any, value))
    except OverflowError:
        return False
    return True


def _wrong(who: str, found: str, right: str) -> CellFailed:
    return CellFailed(f"The protocol {who} {found} — {right} would be right.")


def _place(at: object) -> str:
    return f" at {reprlib.repr(at)}" if at else ""


def _interval(reading: Reading) -> str:
    return f"the interval {reading.low} to {reading.high}"


def _shown(value: object) -> str:
    """A value and its type, short: `None`, `8.5 (float)`, `a Tensor`."""
    if value is None:
        return "None"
    name = type(value).__name__
    if isinstance(value, str | bool | int | float | np.generic | list | tuple | dict):
        return f"{reprlib.repr(cast(object, value))} ({name})"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
