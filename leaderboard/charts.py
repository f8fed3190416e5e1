"""Charts as Altair specs: lines over sites, lengths or steps, always with their intervals, labelled beside the line.

Text that came from a file enters as data only, never as an expression, a title or an address.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import altair as alt

from .colours import LIGHT
from .text import clean

__all__ = ["Axis", "Curve", "Frame", "Mark", "Point", "line_chart", "spread"]

LABEL_GAP = 13.0
_LABEL_LENGTH = 24
_CHARACTER = 6.2
_LEFT = 46


@dataclass(frozen=True, slots=True)
class Point:
    """A value with its interval, at a place on the horizontal axis."""

    x: float
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """One line.

    Attributes
    ----------
    label : str
        Written beside its right end; empty for none.
    colour : str
        As ``#rrggbb``, of the light page.
    points : sequence of Point
    role : str
        ``main``; ``control``: thin and faint, without markers; ``second``: dashed with open markers.
    shape : str
        Marker, or empty for none.
    dash : sequence of int
    """

    label: str
    colour: str
    points: Sequence[Point]
    role: Literal["main", "control", "second"] = "main"
    shape: str = "circle"
    dash: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """A range with its ticks, each with what is written there."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    title: str = ""
    log: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A straight reference line across the plot, or upright in it, with a word at its end."""

    at: float
    label: str = ""
    upright: bool = False
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """The plot area, in pixels, its axes and reference lines, and headings (with words below them) on its top edge."""

    x: Axis
    y: Axis
    width: int = 300
    height: int = 170
    marks: Sequence[Mark] = ()
    headings: Sequence[tuple[float, str]] = ()
    subheadings: Sequence[tuple[float, str]] = ()


def line_chart(curves: Sequence[Curve], frame: Frame) -> dict[str, Any]:
    """Lines with intervals, markers and labels.

    Parameters
    ----------
    curves : sequence of Curve
        Drawn in this order, controls below the others.
    frame : Frame

    Returns
    -------
    dict
        A Vega-Lite spec.
    """
    labelled = [curve for curve in curves if curve.label and curve.points]
    beside = [curve.label for curve in labelled] + [mark.label for mark in frame.marks if not mark.upright]
    widest = max((min(len(label), _LABEL_LENGTH + 1) for label in beside), default=0)
    spec = _fitted(frame)
    spec["padding"] = {
        "left": _LEFT,
        "right": 12 + round(_CHARACTER * widest) + (12 if labelled else 0),
        "top": 50 if frame.subheadings else 36,
        "bottom": 38,
    }
    spec["datasets"] = {
        "grid": [{"y": at} for at, _ in frame.y.ticks],
        "references": [_reference(mark, frame) for mark in frame.marks],
        "words": _words(frame),
        "intervals": [row for curve in curves for row in _intervals(curve, frame)],
        "lines": [row for number, curve in enumerate(curves) for row in _line(curve, number, frame)],
        "points": [row for curve in curves for row in _points(curve, frame)],
        "labels": _labels(labelled, frame),
    }
    return spec


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places as near as possible to the wanted ones, in the same order, at least `gap` apart, within `low` and `high`.

    Of equal ones, the first goes highest. Neighbours that would overlap are joined to blocks, and each block sits where
    its members are wanted on average.
    """
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index], -index))
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    blocks: list[tuple[float, int]] = []
    for index in order:
        start, size = wanted[index], 1
        while blocks and blocks[-1][0] + gap * blocks[-1][1] > start:
            before, members = blocks.pop()
            start = (before * members + (start - gap * members) * size) / (members + size)
            size += members
        blocks.append((start, size))
    placed = [start + gap * step for start, size in blocks for step in range(size)]
    placed = _pushed(placed, gap, low, high)
    found = [0.0] * len(wanted)
    for index, place in zip(order, placed, strict=True):
        found[index] = place
    return found


def _pushed(placed: list[float], gap: float, low: float, high: float) -> list[float]:
    """Sorted places moved inside the range, keeping the gap."""
    for index, place in enumerate(placed):
        placed[index] = max(place, low + gap * index)
    for index in range(len(placed)):
        behind = len(placed) - 1 - index
        placed[behind] = min(placed[behind], high - gap * index)
    return placed


@cache
def _drawing() -> dict[str, Any]:
    """The layers of every line chart; data come by name, sizes and ranges are filled in by `_fitted`."""
    across, up = alt.Scale(nice=False), alt.Scale(nice=False, zero=False)
    pixels: dict[str, Any] = {"scale": None, "axis": None}

    def x(name: str = "x") -> alt.X:
        return alt.X(f"{name}:Q", axis=None, scale=across)

    def y(name: str = "y") -> alt.Y:
        return alt.Y(f"{name}:Q", axis=None, scale=up)

    def raw(channel: Any, name: str) -> Any:
        return channel(f"{name}:N", scale=None, legend=None)

    def of(name: str) -> alt.Chart:
        return alt.Chart(alt.NamedData(name))

    colour, dash = raw(alt.Color, "colour"), raw(alt.StrokeDash, "dash")
    look: dict[str, Any] = {
        "color": colour,
        "strokeWidth": alt.StrokeWidth("thick:Q", scale=None),
        "opacity": alt.Opacity("opacity:Q", scale=None, legend=None),
    }
    left, right = alt.value(0), alt.value("width")
    layers = [
        of("grid").mark_rule(color=LIGHT.grid).encode(x=left, x2=right, y=y()),
        of("references").mark_rule(color=LIGHT.muted).encode(x=x(), x2="x2:Q", y=y(), y2="y2:Q", strokeDash=dash),
        of("intervals").mark_rule().encode(x=x(), y=y(), y2="y2:Q", **look),
        of("lines")
        .mark_line(strokeCap="round")
        .encode(x=x(), y=y(), detail="line:N", strokeDash=dash, order="x:Q", **look),
        of("points")
        .mark_point(size=34, opacity=1, strokeWidth=1.25)
        .encode(
            x=x(), y=y(), stroke=raw(alt.Stroke, "colour"), fill=raw(alt.Fill, "fill"), shape=raw(alt.Shape, "shape")
        ),
        of("labels")
        .mark_rule(opacity=0.5, xOffset=4, x2Offset=13)
        .encode(x=right, x2=right, y=y(), y2="place:Q", color=colour),
        of("labels")
        .mark_text(align="left", baseline="middle", dx=16)
        .encode(x=right, y=y("place"), text="label:N", color=colour),
        *(
            of("words")
            .mark_text(align=align, baseline="middle")
            .transform_filter(f"datum.align == '{align}'")
            .encode(x=alt.X("px:Q", **pixels), y=alt.Y("py:Q", **pixels), text="label:N", color=colour)
            for align in ("left", "center", "right")
        ),
    ]
    chart = (
        alt.layer(*layers)
        .properties(autosize=alt.AutoSizeParams(type="none"))
        .configure(background="transparent", aria=False)
        .configure_view(stroke=None)
        .configure_text(fontSize=11)
    )
    spec = chart.to_dict()
    del spec["$schema"]
    return spec


def _fitted(frame: Frame) -> dict[str, Any]:
    """The drawing with the frame's size and ranges."""
    spec = deepcopy(_drawing())
    scales = {
        "x": {"domain": [frame.x.low, frame.x.high], "type": "log" if frame.x.log else "linear", "nice": False},
        "y": {"domain": [frame.y.low, frame.y.high], "nice": False, "zero": False},
    }
    for layer in spec["layer"]:
        for name, scale in scales.items():
            if layer["encoding"].get(name, {}).get("scale") is not None:
                layer["encoding"][name]["scale"] = scale
    return spec | {"width": frame.width, "height": frame.height}


def _held(value: float, axis: Axis) -> float:
    """The value, or the end of the axis that it lies beyond."""
    return round(min(axis.high, max(axis.low, value)), 5)


def _across(at: float, frame: Frame) -> float:
    """Where a place on the horizontal axis is, in pixels."""
    low, high = frame.x.low, frame.x.high
    share = math.log(at / low) / math.log(high / low) if frame.x.log else (at - low) / (high - low)
    return round(frame.width * share, 1)


def _down(at: float, frame: Frame) -> float:
    """Where a value is, in pixels from the top."""
    return round(frame.height * (frame.y.high - at) / (frame.y.high - frame.y.low), 1)


def _word(label: str, px: float, py: float, align: str, colour: str = LIGHT.muted) -> dict[str, Any]:
    return {"label": clean(label, 40), "px": px, "py": py, "align": align, "colour": colour}


def _words(frame: Frame) -> list[dict[str, Any]]:
    """Ticks, titles, headings and the names of reference lines."""
    rows = [_word(label, -8, _down(at, frame), "right") for at, label in frame.y.ticks]
    rows += [_word(label, _across(at, frame), frame.height + 12, "center") for at, label in frame.x.ticks]
    raised = -14 if frame.subheadings else 0
    rows += [_word(label, _across(at, frame), raised - 8, "center", LIGHT.ink) for at, label in frame.headings]
    rows += [_word(label, _across(at, frame), -8, "center") for at, label in frame.subheadings]
    rows.append(_word(frame.y.title, -_LEFT + 4, raised - 26, "left"))
    rows.append(_word(frame.x.title, frame.width / 2, frame.height + 28, "center"))
    for mark in frame.marks:
        if mark.upright:
            px = _across(mark.at, frame)
            # Near the left edge a centred word would run into the ticks.
            rows.append(_word(mark.label, px - 4, -8, "left") if px < 30 else _word(mark.label, px, -8, "center"))
        else:
            rows.append(_word(mark.label, frame.width + 5, _down(_held(mark.at, frame.y), frame), "left"))
    return [row for row in rows if row["label"]]


def _reference(mark: Mark, frame: Frame) -> dict[str, Any]:
    dash = [] if mark.strong else [2, 3]
    if mark.upright:
        return {"x": mark.at, "x2": mark.at, "y": frame.y.low, "y2": frame.y.high, "dash": dash}
    at = _held(mark.at, frame.y)
    return {"x": frame.x.low, "x2": frame.x.high, "y": at, "y2": at, "dash": dash}


def _intervals(curve: Curve, frame: Frame) -> list[dict[str, Any]]:
    faint = curve.role == "control"
    look = {"colour": curve.colour, "thick": 1 if faint else 1.5, "opacity": 0.4 if faint else 0.65}
    return [
        {"x": p.x, "y": _held(p.low, frame.y), "y2": _held(p.high, frame.y), **look}
        for p in curve.points
        if p.low is not None and p.high is not None
    ]


def _line(curve: Curve, number: int, frame: Frame) -> list[dict[str, Any]]:
    faint = curve.role == "control"
    dash = list(curve.dash) or {"main": [], "control": [1, 3.5], "second": [4, 3]}[curve.role]
    look = {"colour": curve.colour, "dash": dash, "thick": 1.5 if faint else 1.75, "opacity": 0.85 if faint else 1}
    return [{"line": number, "x": p.x, "y": _held(p.value, frame.y), **look} for p in curve.points]


def _points(curve: Curve, frame: Frame) -> list[dict[str, Any]]:
    if curve.role == "control" or not curve.shape:
        return []
    fill = LIGHT.paper if curve.role == "second" else curve.colour
    look = {"colour": curve.colour, "fill": fill, "shape": curve.shape}
    return [{"x": p.x, "y": _held(p.value, frame.y), **look} for p in curve.points]


def _labels(curves: Sequence[Curve], frame: Frame) -> list[dict[str, Any]]:
    """Names beside the right ends, moved apart where they would overlap, each tied to its line by a stroke."""
    units = (frame.y.high - frame.y.low) / frame.height
    ends = [_held(max(curve.points, key=lambda point: point.x).value, frame.y) for curve in curves]
    edge = 3 * units
    places = spread(ends, LABEL_GAP * units, frame.y.low + edge, frame.y.high - edge)
    return [
        {"y": end, "place": round(place, 5), "label": clean(curve.label, _LABEL_LENGTH), "colour": curve.colour}
        for curve, end, place in zip(curves, ends, places, strict=True)
    ]
