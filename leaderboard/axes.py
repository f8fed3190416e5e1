"""What figures are made of: points from estimates, axes over sites, lengths, shares and percentage points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .boards import Entry
from .charts import Axis, Curve, Point
from .estimates import Estimate

__all__ = [
    "Figure",
    "chance_of",
    "extent",
    "length_axis",
    "plainly",
    "points_of",
    "range_axis",
    "share_axis",
    "short_site",
    "site_axis",
]


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its caption and a line of what to read off it."""

    title: str
    svg: Markup
    note: str = ""
    shape: str = ""


def short_site(site: str) -> str:
    """`emb`, or the block's number: sites where there is little room."""
    if site == "embed":
        return "emb"
    return site.removeprefix("block.")[:6]


def points_of(found: Iterable[Estimate | None], first: float) -> list[Point]:
    """Estimates at first, first + 1, …; those without a number leave a hole."""
    return [
        Point(first + index, e.number, e.low, e.high)
        for index, e in enumerate(found)
        if e is not None and e.number is not None
    ]


def chance_of(entry: Entry, task: str, length: int) -> float:
    """Chance on the task at a length."""
    found = next((result.chance for (name, _, _), result in sorted(entry.results.items()) if name == task), {})
    return found.get(str(length), 0.0)


def plainly(word: str) -> str:
    """A name as words."""
    return word.replace("_", " ")


def extent(curves: Iterable[Curve]) -> tuple[float, float]:
    """The smallest and the largest value of the curves, their intervals included."""
    ends = [e for curve in curves for p in curve.points for e in (p.value, p.low, p.high) if e is not None]
    return (min(ends), max(ends)) if ends else (0.0, 1.0)


def range_axis(low: float, high: float, title: str) -> Axis:
    """From just below `low` to just above `high`, 0 included, with two to six round ticks."""
    low, high = min(0.0, low), max(0.0, high)
    span = max(high - low, 1e-6)
    sizes = (m * 10.0**power for power in range(-7, 10) for m in (1, 2, 5))
    step = next((size for size in sizes if span / size <= 5), span)
    room = 0.04 * span
    first, last = math.ceil((low - room) / step), math.floor((high + room) / step)
    ticks = [round(step * index, 9) for index in range(first, last + 1)]
    named = [(tick, f"{tick:g}".replace("-", "\N{MINUS SIGN}")) for tick in ticks]
    return Axis(low - room, high + room, named, title)


def site_axis(names: Sequence[str], depth: int) -> Axis:
    """The sites by name, or by number where they are many."""
    short = len(names) > 6
    ticks = [(float(index), short_site(name) if short else name) for index, name in enumerate(names)]
    return Axis(-0.35, max(1, depth) - 0.65, ticks, "site")


def length_axis(lengths: Sequence[int], margin: float = 0.0, words: str = "sequence length") -> Axis:
    """The lengths, with room on both sides."""
    first, last = min(lengths), max(lengths)
    room = margin + 0.04 * max(1, last - first)
    return Axis(first - room, last + room, [(float(n), str(n)) for n in lengths], words)


def share_axis(low: float, title: str) -> Axis:
    """From just below the smallest value to 1, with a tick every tenth or fifth."""
    start = max(0.0, math.floor(10 * (low - 0.005)) / 10)
    step = 0.1 if start >= 0.5 else 0.2
    ticks = [round(1 - step * index, 1) for index in range(int((1 - start) / step + 1e-9) + 1)]
    return Axis(start, 1.0, [(tick, f"{tick:g}") for tick in ticks], title)
