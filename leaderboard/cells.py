"""The cells of tables: what is shown, by what it sorts, and why it is missing, if it is."""

from __future__ import annotations

from dataclasses import dataclass

from .estimates import Estimate
from .text import MISSING, number

__all__ = ["Bar", "Cell", "cell_of", "missing", "plain"]


@dataclass(frozen=True, slots=True)
class Bar:
    """A value on an axis from 0 to 1, with its interval: all in hundredths, held within the axis."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell.

    Attributes
    ----------
    text : str
        What is shown.
    sort : str or None
        The number (or word) by which the column sorts; None where there is none: these come last, whichever way.
    interval : str
        The interval, in words.
    note : str
        Why it is missing or may not be used; or what else there is to say.
    muted : bool
        Shown, and not used in rankings.
    bar : Bar or None
    """

    text: str
    sort: str | None
    interval: str = ""
    note: str = ""
    muted: bool = False
    bar: Bar | None = None


def missing(why: str) -> Cell:
    """A cell with nothing in it, and the reason."""
    return Cell(MISSING, None, note=why)


def plain(value: float, unit: str, places: int | None = None) -> Cell:
    """A number without an interval."""
    return Cell(number(value, unit, places), repr(float(value)))


def cell_of(
    estimate: Estimate | None, places: int | None = None, *, bar: bool = False, absent: str = "not measured"
) -> Cell:
    """The cell of an estimate.

    Parameters
    ----------
    estimate : Estimate or None
        None where it was not measured.
    places : int, optional
        Decimals; the unit's if left out.
    bar : bool
        Whether a bar from 0 to 1 goes with it.
    absent : str
        Why it was not measured.
    """
    if estimate is None:
        return missing(absent)
    note = _note(estimate)
    if estimate.value is None:
        return missing(note or "no value")
    if isinstance(estimate.value, str):
        return Cell(estimate.value, estimate.value, note=note, muted=estimate.status != "ok")
    interval = ""
    if estimate.low is not None and estimate.high is not None:
        low, high = (number(end, estimate.unit, places) for end in (estimate.low, estimate.high))
        interval = f"{low} to {high}"
    return Cell(
        text=number(estimate.value, estimate.unit, places),
        sort=repr(float(estimate.value)),
        interval=interval,
        note=note,
        muted=estimate.status != "ok",
        bar=bar_of(estimate.value, estimate.low, estimate.high) if bar else None,
    )


def bar_of(value: float, low: float | None, high: float | None) -> Bar:
    """A bar on the axis from 0 to 1."""
    ends = (value, value if low is None else low, value if high is None else high)
    return Bar(*(round(100 * min(1.0, max(0.0, end)), 1) for end in ends))


def _note(estimate: Estimate) -> str:
    said: list[str] = []
    if estimate.status != "ok":
        word = estimate.status.replace("_", " ")
        reason = (estimate.reason or "").replace("_", " ") if _is_word(estimate.reason) else estimate.reason
        said.append(f"{word}: {reason}" if reason and reason != word else word)
    if estimate.seeds < estimate.asked and estimate.value is not None:
        said.append(f"{estimate.seeds} of {estimate.asked} seeds")
    if estimate.open is not None:
        said.append(estimate.open)
    return "; ".join(said)


def _is_word(reason: str | None) -> bool:
    """Whether a reason is a single word such as `no_causal_site`."""
    return reason is not None and reason.replace("_", "").isalnum()
