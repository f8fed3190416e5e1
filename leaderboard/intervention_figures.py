"""Figures of interventions: patching, components removed, and ablation at lengths that training never saw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..suite.measure.statistics import SignFlip, sign_flip_test
from .axes import Figure, extent, length_axis, plainly, points_of, range_axis, site_axis
from .boards import Board, Entry
from .charts import Curve, Frame, Mark, Point, line_chart
from .colours import SHAPES
from .estimates import At, Estimate, Estimates, at
from .site import Site
from .text import number, plural

__all__ = [
    "Grouping",
    "attribution_of_model",
    "attributions",
    "grouping_of_model",
    "ood_ablation_of_model",
    "p_in_words",
    "patching_of_model",
    "patching_of_models",
    "seed_test",
    "smallest_in_words",
]

_HEADLINE = {"ruler": "means", "fill": "mean"}
_DASHES = ((), (5, 2), (2, 2), (8, 2, 2, 2))
_ZERO = Mark(0.0, strong=True)


@dataclass(frozen=True, slots=True)
class Grouping:
    """Which of the two other tasks S3 goes with, in words."""

    text: str
    interval: str
    verdict: str
    note: str


def patching_of_model(site: Site, board: Board, entry: Entry, task: str) -> Figure | None:
    """Recovery by site, read where it was patched and downstream; what holds by construction is hollow and dotted."""
    estimates, sites = site.estimates[entry.identity], entry.sites(task)
    places = estimates.places(task, "patching")
    reads = list(dict.fromkeys(str(dict(w)["read"]) for m, w in places if m == "recovery" and "read" in dict(w)))
    shape, colour = SHAPES[board.tasks[task].structure], site.ink(entry).light
    trivial: list[Curve] = []
    curves: list[Curve] = []
    for index, read in enumerate(sorted(reads)):
        measured: list[Point] = []
        given: list[Point] = []
        for position, name in enumerate(sites):
            place: dict[str, str | int] = {"site": name, "read": read}
            measured += points_of([estimates.get(task, "patching.recovery", place)], float(position))
            given += points_of([estimates.get(task, "patching.recovery", place | {"trivial": "true"})], float(position))
        if measured:
            curves.append(Curve(plainly(read), colour, measured, shape=shape, dash=_DASHES[index % len(_DASHES)]))
        for point in given:
            # The line leads to the nearest measured site; that site's full marker is drawn over the hollow one.
            nearest = sorted(measured, key=lambda other: abs(other.x - point.x))[:1]
            points = sorted([point, *(Point(p.x, p.value) for p in nearest)], key=lambda p: p.x)
            trivial.append(Curve("", colour, points, role="second", shape=shape, dash=(1, 3)))
    if not curves and not trivial:
        return None
    drawn = [*trivial, *curves]
    low, high = extent(drawn)
    axis = range_axis(max(low, -1.0), min(max(high, 1.0), 2.0), "share of the clean answer recovered")
    one = Mark(1.0)
    frame = Frame(site_axis(sites, len(sites)), axis, width=max(250, 40 * len(sites)), height=150, marks=(_ZERO, one))
    text = f"Recovery by patched site of {entry.model.title} on {task}: "
    text += "; ".join(f"{c.label} {', '.join(f'{p.value:.2f}' for p in c.points)}" for c in curves)
    note = "hollow, dotted: holds by construction, says nothing of the model" if trivial else ""
    return Figure(task, site.draw(line_chart(drawn, frame), f"{text}."), note, shape)


def patching_of_models(site: Site, board: Board, task: str) -> Figure | None:
    """Downstream recovery by patched site, all models of the board overlaid; nothing where only one has it."""
    curves: list[Curve] = []
    shape = SHAPES[board.tasks[task].structure]
    for entry in board.entries:
        estimates, ink = site.estimates[entry.identity], site.ink(entry)
        places = [{"site": name, "read": "downstream"} for name in entry.sites(task)]
        points = points_of([estimates.get(task, "patching.recovery", place) for place in places], 0.0)
        if points:
            curves.append(Curve(entry.model.title, ink.light, points, shape=shape, dash=ink.dash))
    if len(curves) < 2:
        return None
    names = max((entry.sites(task) for entry in board.entries), key=len)
    low, high = extent(curves)
    axis = range_axis(max(low, -1.0), min(max(high, 1.0), 2.0), "recovery downstream")
    height = max(240, 14 * len(curves) + 20)
    across = site_axis(names, len(names))
    frame = Frame(across, axis, width=max(330, 46 * len(names)), height=height, marks=(_ZERO, Mark(1.0)))
    ends = "; ".join(f"{c.label} {', '.join(f'{p.value:.2f}' for p in c.points)}" for c in curves)
    text = f"Recovery downstream by patched site on {task}, {len(curves)} models: {ends}."
    note = "the clean activation put in at one position; read at the last position whose state differs"
    return Figure("What patching one position carries on", site.draw(line_chart(curves, frame), text), note)


def attributions(board: Board, estimates: Estimates) -> list[str]:
    """The protocols that removed a component, told by their metrics."""
    effects = {"posthoc_effect", "retrain_effect"}
    return [
        name
        for name, spec in board.protocols.items()
        if effects & spec.metrics.keys()
        and any(metric in effects for task in board.tasks for metric, _ in estimates.places(task, name))
    ]


def attribution_of_model(site: Site, board: Board, entry: Entry, task: str, protocol: str) -> Figure | None:
    """Effect of removing a component by length: after training, in each mode, and with training done without it."""
    estimates = site.estimates[entry.identity]
    lines: dict[tuple[str, At], list[int]] = {}
    for metric, where in estimates.places(task, protocol):
        length = dict(where).get("length")
        if metric in ("posthoc_effect", "retrain_effect") and isinstance(length, int):
            rest = tuple(pair for pair in where if pair[0] != "length")
            lines.setdefault((metric, rest), []).append(length)
    shape, colour = SHAPES[board.tasks[task].structure], site.ink(entry).light
    curves: list[Curve] = []
    tested: list[tuple[str, SignFlip]] = []
    train = board.tasks[task].lengths.train
    for index, ((metric, rest), lengths) in enumerate(sorted(lines.items(), key=_retrain_first)):
        label = _mode_in_words(metric, rest)
        found = [
            (n, estimates.get(task, f"{protocol}.{metric}", at(dict(rest) | {"length": n}))) for n in sorted(lengths)
        ]
        points = [p for n, e in found for p in points_of([e], float(n))]
        if points:
            if metric == "retrain_effect":
                curves.append(Curve(label, colour, points, shape=shape))
            else:
                curves.append(Curve(label, colour, points, "second", shape, _DASHES[1 + index % 3]))
            test = seed_test(entry, task, protocol, metric, at(dict(rest) | {"length": train}))
            tested += [(label, test)] if test is not None else []
    if not curves:
        return None
    lengths = sorted({int(p.x) for curve in curves for p in curve.points})
    axis = range_axis(*extent(curves), "effect of removal, pp")
    marks = (_ZERO, Mark(train, "trained here", upright=True))
    frame = Frame(length_axis(lengths), axis, width=270, height=150, marks=marks)
    ends = "; ".join(f"{c.label} {c.points[0].value:.1f} to {c.points[-1].value:.1f}" for c in curves)
    text = f"Effect on {task} of removing a component of {entry.model.title}, first to last length, in pp: {ends}."
    said = [f"{label} {p_in_words(test.p)}" for label, test in tested]
    said += sorted({smallest_in_words(test.smallest) for _, test in tested} - {""})
    note = f"at length {train}: {' · '.join(said)}" if said else ""
    title = f"{task} · {board.protocols[protocol].title}"
    return Figure(title, site.draw(line_chart(curves, frame), text), note, shape)


def seed_test(entry: Entry, task: str, protocol: str, metric: str, where: At) -> SignFlip | None:
    """The sign-flip test of a difference over seeds; None for one seed or none."""
    values = [
        found.value
        for (name, _, measured), result in sorted(entry.results.items(), key=lambda pair: pair[0])
        if (name, measured) == (task, protocol)
        for found in result.metrics
        if found.metric == metric and at(found.at) == where and isinstance(found.value, float)
    ]
    if not 2 <= len(values) <= 20:
        return None
    return sign_flip_test(np.array(values))


def p_in_words(p: float) -> str:
    """A p-value."""
    shown = f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"
    return shown.replace(" ", "\N{NO-BREAK SPACE}")


def smallest_in_words(smallest: float) -> str:
    """What to know of a test that so few seeds cannot decide; nothing where they can."""
    if smallest <= 0.05:
        return ""
    seeds = 1 - round(math.log2(smallest))
    return f"{plural(seeds, 'seed')} can give no p below {smallest:g}"


def ood_ablation_of_model(site: Site, board: Board, entry: Entry, task: str) -> Figure | None:
    """Drop at the causal site by length, beside the drop of random directions."""
    estimates = site.estimates[entry.identity]
    chosen = _site_of_ablation(estimates, entry, task, board.tasks[task].target)
    if chosen is None:
        return None
    name, why = chosen
    lengths = sorted(board.tasks[task].lengths.evaluate)
    shape, colour = SHAPES[board.tasks[task].structure], site.ink(entry).light
    curves: list[Curve] = []
    for metric, role in (("random_drop", "control"), ("drop", "main")):
        at_site = _HEADLINE | {"site": name}
        found = [(n, estimates.get(task, f"ood_ablation.{metric}", at_site | {"length": n})) for n in lengths]
        points = [p for n, e in found for p in points_of([e], float(n))]
        label = "random" if role == "control" else "state directions"
        if points:
            curves.append(Curve(label, colour, points, role="control" if role == "control" else "main", shape=shape))
    if not curves:
        return None
    low, high = extent(curves)
    marks = (_ZERO, Mark(board.tasks[task].lengths.train, "fitted here", upright=True))
    frame = Frame(length_axis(lengths), range_axis(low, high, "drop, pp"), width=250, height=130, marks=marks)
    ends = "; ".join(f"{c.label} {c.points[0].value:.1f} to {c.points[-1].value:.1f}" for c in curves)
    text = f"Drop on {task} after ablating {name} of {entry.model.title}, shortest to longest length, in pp: {ends}."
    return Figure(task, site.draw(line_chart(curves, frame), text), f"at {name}, {why}", shape)


def grouping_of_model(site: Site, board: Board, entry: Entry) -> Grouping | None:
    """Whether the state of S3 lies along depth as that of Parity or as that of Dyck."""
    estimates = site.estimates[entry.identity]
    found = [e for task in board.tasks if (e := estimates.get(task, "grouping.grouping")) is not None]
    # The protocol measures on one task and says so on the others.
    best = next((e for e in found if e.number is not None), None)
    if best is None or best.number is None:
        return None
    interval, verdict = "", "not told apart: no interval"
    if best.low is not None and best.high is not None:
        interval = f"{number(best.low, 'skill')} to {number(best.high, 'skill')}"
        verdict = "S3 goes with Parity" if best.low > 0 else "S3 goes with Dyck" if best.high < 0 else "not told apart"
    note = "" if best.status == "ok" else f"{plainly(best.status)}: {best.reason or 'no reason is given'}"
    return Grouping(number(best.number, "skill"), interval, verdict, note)


def _retrain_first(line: tuple[tuple[str, At], list[int]]) -> tuple[bool, str]:
    (metric, rest), _ = line
    return metric != "retrain_effect", str(rest)


def _mode_in_words(metric: str, rest: At) -> str:
    words = [plainly(str(value)) for _, value in rest]
    return "retrained" if metric == "retrain_effect" else ", ".join(words) or "post hoc"


def _site_of_ablation(estimates: Estimates, entry: Entry, task: str, target: str) -> tuple[str, str] | None:
    """The site to show: the causal one, else the best one, else that with the largest drop."""
    rows = [dict(where) for metric, where in estimates.places(task, "ood_ablation") if metric == "drop"]
    there = {str(row["site"]) for row in rows if "site" in row and _HEADLINE.items() <= row.items()}
    causal = estimates.get(task, "causal.causal_site", _HEADLINE)
    if causal is not None and causal.value in there:
        return str(causal.value), "the causal site"
    best = estimates.get(task, "probe_profile.best_site", {"variable": target, "on": "skill"})
    if best is not None and best.value in there:
        return str(best.value), "the best site"
    names = [name for name in entry.sites(task) if name in there]
    drops = {name: _largest(estimates, task, rows, name) for name in names}
    return (max(names, key=drops.__getitem__), "where the drop is largest") if names else None


def _largest(estimates: Estimates, task: str, rows: Sequence[dict[str, Any]], name: str) -> float:
    found: list[Estimate | None] = [
        estimates.get(task, "ood_ablation.drop", row)
        for row in rows
        if row.get("site") == name and _HEADLINE.items() <= row.items()
    ]
    return max((e.number for e in found if e is not None and e.number is not None), default=-math.inf)
