"""The figures of the pages: which curves, on which axes, and what they show in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from .axes import Figure, chance_of, length_axis, plainly, points_of, share_axis, short_site, site_axis
from .boards import Board, Entry
from .charts import Axis, Curve, Frame, Mark, Point, line_chart
from .colours import SHAPES
from .estimates import At, Estimate
from .site import Site
from .text import number

__all__ = [
    "accuracy_of_models",
    "causal_of_model",
    "profile_of_model",
    "profile_of_models",
    "skill_of_model",
    "training_of_model",
]

_SHARES = ((0.0, "chance"), (0.25, "0.25"), (0.5, "0.5"), (0.75, "0.75"), (1.0, "1"))
_BELOW = ((-0.25, "−0.25"), (-0.5, "−0.5"), (-0.75, "−0.75"), (-1.0, "−1"))
_CHANCE = Mark(0.0, strong=True)
_TASK_DASHES = ((), (6, 2), (2, 2), (8, 2, 2, 2))


def profile_of_models(site: Site, board: Board, task: str, variable: str) -> Figure | None:
    """Probe skill by site, all models of the board overlaid, each with its untrained control."""
    depth = max((len(entry.sites(task)) for entry in board.entries), default=0)
    curves: list[Curve] = []
    shown = [entry for entry in board.entries if _profile(site, entry, task, variable, "trained", 0.0)]
    for position, entry in enumerate(shown):
        shift = 0.36 * ((position + 0.5) / len(shown) - 0.5)
        ink, shape = site.ink(entry), SHAPES[board.tasks[task].structure]
        trained = _profile(site, entry, task, variable, "trained", shift)
        untrained = _profile(site, entry, task, variable, "untrained", shift)
        curves.append(Curve("", ink.light, untrained, role="control"))
        curves.append(Curve(entry.model.title, ink.light, trained, shape=shape, dash=ink.dash))
    if not curves:
        return None
    names = max((entry.sites(task) for entry in shown), key=len)
    height, axis = max(240, 14 * len(shown) + 20), _skill_axis(curves, "probe skill")
    frame = Frame(site_axis(names, depth), axis, width=max(330, 46 * depth), height=height, marks=(_CHANCE,))
    ends = "; ".join(f"{c.label} {c.points[-1].value:.2f}" for c in curves if c.role == "main")
    text = f"Probe skill for {variable} by site on {task}, {len(shown)} models. At the last site: {ends}."
    target = " (target)" if variable == board.tasks[task].target else ""
    return Figure(f"Where {variable}{target} can be read", site.draw(line_chart(curves, frame), text))


def profile_of_model(site: Site, board: Board, entry: Entry, task: str, variable: str) -> Figure | None:
    """Probe skill by site of one model, trained and untrained, its best and its causal site marked."""
    sites, ink = entry.sites(task), site.ink(entry)
    trained = _profile(site, entry, task, variable, "trained", 0.0)
    if not trained:
        return None
    untrained = _profile(site, entry, task, variable, "untrained", 0.0)
    shape = SHAPES[board.tasks[task].structure]
    curves = [
        Curve("untrained", ink.light, untrained, role="control"),
        Curve("trained", ink.light, trained, shape=shape, dash=ink.dash),
    ]
    marks, note = [_CHANCE], ""
    estimates = site.estimates[entry.identity]
    best = estimates.get(task, "probe_profile.best_site_index", {"variable": variable, "on": "skill"})
    causal = None
    if variable == board.tasks[task].target:
        causal = estimates.get(task, "causal.causal_site_index", {"ruler": "means", "fill": "mean"})
    marks += _site_marks(best, causal)
    said = estimates.get(task, "probe_profile.best_site", {"variable": variable, "on": "skill"})
    shaped = estimates.get(task, "probe_profile.shape", {"variable": variable, "on": "skill"})
    if said is not None and said.value is not None:
        note = f"best site {said.value}"
    if shaped is not None and shaped.value is not None:
        note += f"{' · ' if note else ''}{shaped.value}"
    axis = _skill_axis(curves, "probe skill")
    frame = Frame(site_axis(sites, len(sites)), axis, width=max(250, 40 * len(sites)), marks=tuple(marks))
    values = ", ".join(f"{name} {p.value:.2f}" for name, p in zip(sites, trained, strict=False))
    text = f"Probe skill of {entry.model.title} for {variable} by site on {task}: {values}."
    target = " (target)" if variable == board.tasks[task].target else ""
    return Figure(f"{task} · {variable}{target}", site.draw(line_chart(curves, frame), text), note, shape)


def causal_of_model(site: Site, board: Board, entry: Entry, task: str) -> Figure | None:
    """What each ruler's ablation leaves, by site: task accuracy, the same after a random ablation, a refitted probe."""
    sites, estimates = entry.sites(task), site.estimates[entry.identity]
    rulers = _rulers(estimates.places(task, "causal"))
    clean = _clean_accuracy(entry, task)
    if not rulers or clean is None:
        return None
    step, shape = len(sites) + 1, SHAPES[board.tasks[task].structure]
    curves: list[Curve] = []
    ticks: list[tuple[float, str]] = []
    heads: list[tuple[float, str]] = []
    for group, (ruler, fill) in enumerate(rulers):
        left = group * step
        ticks += [(left + index, short_site(name)) for index, name in enumerate(sites)]
        heads.append((left + (len(sites) - 1) / 2, f"{plainly(ruler)}, {fill} fill"))
        random, refit, drop = (
            [estimates.get(task, f"causal.{metric}", {"site": name, "ruler": ruler, "fill": fill}) for name in sites]
            for metric in ("random_drop", "refit_accuracy", "drop")
        )
        colour = site.ink(entry).light
        curves.append(Curve("", colour, _left(random, clean, left - 0.12), role="control"))
        curves.append(Curve("", colour, points_of(refit, left + 0.12), role="second", shape=shape))
        curves.append(Curve("", colour, _left(drop, clean, left), shape=shape))
    chance = chance_of(entry, task, board.tasks[task].lengths.train)
    low = min([chance, *(max(0.0, p.value) for curve in curves for p in curve.points)])
    frame = Frame(
        Axis(-0.6, len(rulers) * step - 1.5, ticks, "site ablated"),
        share_axis(low, "accuracy left after the ablation"),
        width=max(300, 30 * len(rulers) * step),
        marks=(Mark(clean, "intact", strong=True), Mark(chance, "chance")),
        headings=heads,
    )
    text = f"Accuracy left on {task} after ablating each site of {entry.model.title}, for {len(rulers)} rulers."
    gaps = [_gap_in_words(estimates.get(task, "causal.gap", {"ruler": r, "fill": f}), r) for r, f in rulers]
    return Figure(task, site.draw(line_chart(curves, frame), text), " · ".join(gap for gap in gaps if gap), shape)


def skill_of_model(site: Site, board: Board, entry: Entry) -> Figure | None:
    """Token skill by length of one model, all tasks overlaid."""
    ink, estimates = site.ink(entry), site.estimates[entry.identity]
    curves: list[Curve] = []
    for position, (task, spec) in enumerate(board.tasks.items()):
        found = [(n, estimates.get(task, "behaviour.skill", {"length": n})) for n in sorted(spec.lengths.evaluate)]
        points = [p for n, e in found for p in points_of([e], float(n))]
        if points:
            dash = _TASK_DASHES[position % len(_TASK_DASHES)]
            curves.append(Curve(task, ink.light, points, shape=SHAPES[spec.structure], dash=dash))
    if not curves:
        return None
    lengths = sorted({int(p.x) for curve in curves for p in curve.points})
    trained = sorted({spec.lengths.train for spec in board.tasks.values()})
    # Words over several lengths would run into each other.
    above, below = ("trained here", "") if len(trained) == 1 else ("", ", dotted: trained here")
    marks = [_CHANCE] + [Mark(n, above, upright=True) for n in trained]
    across, up = length_axis(lengths, words=f"sequence length{below}"), _skill_axis(curves, "token skill")
    frame = Frame(across, up, width=300, height=200, marks=tuple(marks))
    ends = "; ".join(f"{curve.label} {curve.points[-1].value:.2f} at {curve.points[-1].x:g}" for curve in curves)
    text = f"Token skill of {entry.model.title} by sequence length: {ends}."
    return Figure("Skill by sequence length", site.draw(line_chart(curves, frame), text))


def accuracy_of_models(site: Site, board: Board, task: str) -> Figure | None:
    """Token accuracy by length on one task, all models overlaid, with the chance line."""
    spec = board.tasks[task]
    lengths = sorted(spec.lengths.evaluate)
    curves: list[Curve] = []
    width = 0.015 * (lengths[-1] - lengths[0])
    for position, entry in enumerate(board.entries):
        estimates, ink = site.estimates[entry.identity], site.ink(entry)
        shift = width * (position - (len(board.entries) - 1) / 2) if len(board.entries) < 12 else 0.0
        found = [(n, estimates.get(task, "behaviour.accuracy", {"length": n})) for n in lengths]
        points = [p for n, e in found for p in points_of([e], n + shift)]
        if points:
            curves.append(Curve(entry.model.title, ink.light, points, shape=SHAPES[spec.structure], dash=ink.dash))
    if not curves:
        return None
    entry = next(entry for entry in board.entries if entry.sites(task))
    chance = [Point(float(n), chance_of(entry, task, n)) for n in lengths]
    low = min([p.value for p in chance] + [p.value for curve in curves for p in curve.points])
    frame = Frame(
        length_axis(lengths, len(curves) * width / 2),
        share_axis(low, "token accuracy"),
        width=330,
        height=max(240, 14 * len(curves) + 20),
        marks=(Mark(spec.lengths.train, "trained here", upright=True),),
    )
    ends = "; ".join(f"{curve.label} {curve.points[-1].value:.2f}" for curve in curves)
    text = f"Token accuracy on {task} by sequence length, {len(curves)} models. At length {lengths[-1]}: {ends}."
    curves.insert(0, Curve("chance", "#59636e", chance, role="control"))
    return Figure("Accuracy by sequence length", site.draw(line_chart(curves, frame), text))


def training_of_model(site: Site, board: Board, entry: Entry) -> Figure | None:
    """Validation accuracy by training step, every cell."""
    ink = site.ink(entry)
    curves: list[Curve] = []
    for position, task in enumerate(board.tasks):
        label = task
        for seed in board.seeds:
            cell = entry.cells.get((task, seed))
            curve = cell.curve if cell is not None else None
            if curve is None or not curve.step or len(curve.step) != len(curve.accuracy):
                continue
            points = [Point(float(step), accuracy) for step, accuracy in zip(curve.step, curve.accuracy, strict=True)]
            points = [point for point in points if point.x > 0]
            dash = _TASK_DASHES[position % len(_TASK_DASHES)]
            if points:
                curves.append(Curve(label, ink.light, points, shape="", dash=dash))
                label = ""
    if not curves:
        return None
    first = min(curve.points[0].x for curve in curves)
    last = max(curve.points[-1].x for curve in curves)
    low = min(point.value for curve in curves for point in curve.points)
    axis = Axis(first * 0.95, max(last * 1.05, first * 1.5), _powers(first, last), "training step", log=True)
    frame = Frame(axis, share_axis(low, "validation accuracy"), width=300, height=200)
    ends = "; ".join(f"{curve.label} {curve.points[-1].value:.3f}" for curve in curves if curve.label)
    text = f"Validation accuracy of {entry.model.title} while training, at the end: {ends}."
    return Figure("Training", site.draw(line_chart(curves, frame), text))


def _left(found: Iterable[Estimate | None], clean: float, first: float) -> list[Point]:
    """What a drop in percentage points leaves of the clean accuracy."""
    return [
        Point(
            p.x,
            clean - p.value / 100,
            None if p.high is None else clean - p.high / 100,
            None if p.low is None else clean - p.low / 100,
        )
        for p in points_of(found, first)
    ]


def _profile(site: Site, entry: Entry, task: str, variable: str, control: str, first: float) -> list[Point]:
    places = [{"site": name, "variable": variable, "control": control} for name in entry.sites(task)]
    found = [site.estimates[entry.identity].get(task, "probe_profile.skill", place) for place in places]
    return points_of(found, first)


def _site_marks(best: Estimate | None, causal: Estimate | None) -> list[Mark]:
    at_best = best.number if best is not None else None
    at_causal = causal.number if causal is not None else None
    if at_best is not None and at_best == at_causal:
        return [Mark(at_best, "best = causal", upright=True)]
    marks = [Mark(at_best, "best", upright=True)] if at_best is not None else []
    return marks + ([Mark(at_causal, "causal", upright=True)] if at_causal is not None else [])


def _rulers(places: Sequence[tuple[str, At]]) -> list[tuple[str, str]]:
    """Rulers and their fills, in the order of the files."""
    found: dict[tuple[str, str], None] = {}
    for metric, where in places:
        named = {name: str(value) for name, value in where}
        if metric == "drop" and named.keys() == {"ruler", "fill", "site"}:
            found.setdefault((named["ruler"], named["fill"]))
    return list(found)


def _gap_in_words(gap: Estimate | None, ruler: str) -> str:
    if gap is None:
        return ""
    if gap.number is None:
        return f"gap by {plainly(ruler)}: none ({plainly(gap.reason or gap.status)})"
    return f"gap by {plainly(ruler)}: {number(gap.number, 'sites')}"


def _clean_accuracy(entry: Entry, task: str) -> float | None:
    keys = [key for key in sorted(entry.results) if (key[0], key[2]) == (task, "causal")]
    found = [entry.results[key].clean_accuracy for key in keys]
    return sum(found) / len(found) if found else None


def _skill_axis(curves: Iterable[Curve], title: str) -> Axis:
    """From chance, or from below the smallest value under it, −1 at most, to 1."""
    low = min((point.value for curve in curves for point in curve.points), default=0.0)
    if low >= -0.04:
        return Axis(-0.04, 1.0, _SHARES, title)
    ticks = _BELOW[: math.ceil(min(1.0, -low) / 0.25)]
    return Axis(ticks[-1][0], 1.0, (*_SHARES, *ticks), title)


def _powers(first: float, last: float) -> list[tuple[float, str]]:
    """1, 3, 10, 30, … between the first and the last step."""
    steps = [base * 10**power for power in range(10) for base in (1, 3)]
    return [(float(step), f"{step:,}") for step in steps if first * 0.95 <= step <= last * 1.05]
