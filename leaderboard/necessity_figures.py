"""Figures of erasure: what a refitted probe reads and what the model still does, step by step, at every site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .axes import Figure, chance_of, plainly, points_of, range_axis, share_axis
from .boards import Board, Entry
from .charts import Axis, Curve, Frame, Mark, line_chart
from .colours import SHAPES
from .estimates import At, Estimate, Estimates
from .site import Site

__all__ = ["Verdicts", "necessity_of_model", "subspace_of_model", "verdicts_of_model"]

Role = Literal["main", "control", "second"]
_METHOD = "inlp"
_CURVES = ("curve_random_accuracy", "curve_refit_accuracy", "curve_task_accuracy")
_RULERS = {"means": "class means", "probe": "one probe's directions"}
_GAP = 0.28
"""Between two groups, as a share of a group's width."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What one way of erasing says of every site on one task, in words.

    Attributes
    ----------
    erased : str
        What was erased: all that a method finds, or one ruler's directions alone.
    whole : bool
        Whether the verdict stands by itself: a fresh probe was at chance where it says anything.
    """

    task: str
    erased: str
    whole: bool
    by_site: dict[str, str]


def verdicts_of_model(site: Site, board: Board, entry: Entry) -> list[Verdicts]:
    """The verdict of every site, by task and by what was erased; after erasure first, one ruler's directions below."""
    estimates = site.estimates[entry.identity]
    found: list[Verdicts] = []
    for task in board.tasks:
        places = estimates.places(task, "necessity")
        for metric, coordinate in (("verdict", "method"), ("single_direction_verdict", "ruler")):
            for name in _named(places, coordinate, metric):
                said = {
                    where["site"]: _word(estimates.get(task, f"necessity.{metric}", where))
                    for where in (dict(at) for known, at in places if known == metric and (coordinate, name) in at)
                }
                if said:
                    whole = coordinate == "method"
                    erased = name.upper() if whole else f"{_RULERS.get(name, plainly(name))} alone"
                    found.append(Verdicts(task, erased, whole, {str(key): word for key, word in said.items()}))
    return found


def necessity_of_model(site: Site, board: Board, entry: Entry, task: str) -> Figure | None:
    """Accuracy of the task, of a refitted probe and after random erasure, by the rank erased, a group a site."""
    estimates = site.estimates[entry.identity]
    sites = _sites(estimates, entry, task, "curve_refit_accuracy")
    ranks = {name: _values(estimates.places(task, "necessity"), name, "rank") for name in sites}
    if not sites:
        return None
    most = max(1, max(found[-1] for found in ranks.values()))
    step = most * (1 + _GAP)
    shape, colour = SHAPES[board.tasks[task].structure], site.ink(entry).light
    curves: list[Curve] = []
    ticks: list[tuple[float, str]] = []
    heads: list[tuple[float, str]] = []
    verdicts: list[tuple[float, str]] = []
    for group, name in enumerate(sites):
        left = group * step
        ticks += [(left + at, word) for at, word in range_axis(0, most, "").ticks]
        heads.append((left + most / 2, name))
        verdicts.append((left + most / 2, _verdict(estimates, task, name)))
        random, refit, task_left = (_by(estimates, task, f"necessity.{m}", name, ranks[name]) for m in _CURVES)
        curves.append(_curve(random, left, colour, "control", ""))
        curves.append(_curve(refit, left, colour, "second", shape))
        curves.append(_curve(task_left, left, colour, "main", shape))
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return None
    chance = chance_of(entry, task, board.tasks[task].lengths.train)
    low = min([chance, *(max(0.0, p.value) for curve in curves for p in curve.points)])
    frame = Frame(
        Axis(-0.06 * most, len(sites) * step - most * (_GAP - 0.06), ticks, "directions erased"),
        share_axis(low, "accuracy"),
        width=max(300, max(112, *(6 * min(40, len(word)) for _, word in verdicts)) * len(sites)),
        marks=(Mark(chance, "chance"),),
        headings=heads,
        subheadings=verdicts,
    )
    said = "; ".join(f"{name} {word}" for (_, name), (_, word) in zip(heads, verdicts, strict=True))
    text = f"Accuracy of {entry.model.title} on {task} and of a refitted probe by directions erased. Verdicts: {said}."
    uneven = any(e.seeds < e.asked for name in sites for e in _refits(estimates, task, name, ranks[name]))
    note = "at the larger ranks fewer seeds: the others were at chance before" if uneven else ""
    return Figure(task, site.draw(line_chart(curves, frame), text), note, shape)


def subspace_of_model(site: Site, board: Board, entry: Entry, task: str) -> Figure | None:
    """Effect of ablating the top k directions, a group a site, a line a basis."""
    estimates = site.estimates[entry.identity]
    places = estimates.places(task, "subspace")
    bases = _named(places, "basis")
    sites = [name for name in entry.sites(task) if _values(places, name, "k", "effect")]
    ks = sorted({k for name in sites for k in _values(places, name, "k", "effect")})
    if not sites or not bases:
        return None
    step, shape, colour = len(ks) + 0.6, SHAPES[board.tasks[task].structure], site.ink(entry).light
    curves: list[Curve] = []
    for group, name in enumerate(sites):
        for number, basis in enumerate(bases):
            found = [estimates.get(task, "subspace.effect", {"site": name, "basis": basis, "k": k}) for k in ks]
            label = plainly(basis) if group == len(sites) - 1 else ""
            points = points_of(found, group * step + 0.12 * number)
            if points:
                curves.append(Curve(label, colour, points, role="second" if number else "main", shape=shape))
    if not curves:
        return None
    values = [p.value for curve in curves for p in curve.points]
    frame = Frame(
        Axis(
            -0.5,
            len(sites) * step - 1,
            [(group * step + i, str(k)) for group in range(len(sites)) for i, k in enumerate(ks)],
            "directions ablated",
        ),
        range_axis(min(values), max(values), "effect, pp"),
        width=max(300, 22 * round(len(sites) * step)),
        height=120,
        marks=(Mark(0.0, strong=True),),
        headings=[(group * step + (len(ks) - 1) / 2, name) for group, name in enumerate(sites)],
    )
    last = "; ".join(f"{curve.label} {curve.points[-1].value:.1f} pp" for curve in curves if curve.label)
    text = f"Effect of ablating the top {ks[0]} to {ks[-1]} directions of {entry.model.title} on {task}, by site."
    return Figure(task, site.draw(line_chart(curves, frame), f"{text} At the last site: {last}."), "", shape)


def _curve(found: Sequence[tuple[int, Estimate | None]], left: float, colour: str, role: Role, shape: str) -> Curve:
    points = [p for rank, estimate in found for p in points_of([estimate], left + rank)]
    # Many steps leave no room for a marker each.
    return Curve("", colour, points, role=role, shape=shape if len(points) <= 9 else "")


def _sites(estimates: Estimates, entry: Entry, task: str, metric: str) -> list[str]:
    """The sites where the method gave the metric, in the model's order."""
    found = {
        dict(where).get("site")
        for name, where in estimates.places(task, "necessity")
        if name == metric and dict(where).get("method") == _METHOD
    }
    return [name for name in entry.sites(task) if name in found]


def _verdict(estimates: Estimates, task: str, name: str) -> str:
    return _word(estimates.get(task, "necessity.verdict", {"site": name, "method": _METHOD}))


def _word(found: Estimate | None) -> str:
    if found is None or not isinstance(found.value, str):
        return f"none: {plainly(found.reason)}" if found is not None and found.reason else "no verdict"
    word = plainly(found.value)
    return word if found.status == "ok" else f"({word})"


def _by(
    estimates: Estimates, task: str, metric: str, name: str, ranks: Sequence[int]
) -> list[tuple[int, Estimate | None]]:
    return [(rank, estimates.get(task, metric, {"site": name, "method": _METHOD, "rank": rank})) for rank in ranks]


def _refits(estimates: Estimates, task: str, name: str, ranks: Sequence[int]) -> list[Estimate]:
    return [e for _, e in _by(estimates, task, "necessity.curve_refit_accuracy", name, ranks) if e is not None]


def _values(places: Sequence[tuple[str, At]], name: str, coordinate: str, metric: str = _CURVES[1]) -> list[int]:
    """The values of a whole-number coordinate at a site, by size."""
    at_site = [dict(where) for found, where in places if found == metric and ("site", name) in where]
    mine = [where for where in at_site if where.get("method", _METHOD) == _METHOD]
    return sorted({value for where in mine if isinstance(value := where.get(coordinate), int)})


def _named(places: Sequence[tuple[str, At]], coordinate: str, metric: str = "effect") -> list[str]:
    """The values of a coordinate in the order of the files."""
    found = (str(dict(where)[coordinate]) for name, where in places if name == metric and coordinate in dict(where))
    return list(dict.fromkeys(found))
