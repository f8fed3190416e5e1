"""The index: one board a suite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ..suite.measure.statistics import why_no_interval
from .boards import Board, Entry
from .cells import Cell, bar_of, cell_of, missing, plain
from .claims_page import counts_in_words
from .colours import SHAPES, Ink
from .estimates import Estimate
from .site import Site
from .text import number, plural

__all__ = ["BoardView", "ClaimsLine", "Column", "Row", "Spark", "board_view", "headline_cell"]

SPARK_WIDTH, SPARK_HEIGHT = 84.0, 30.0
HEADLINE = {"ruler": "means", "fill": "mean"}
PAPER = {"ruler": "probe", "fill": "zero"}


@dataclass(frozen=True, slots=True)
class Spark:
    """A small profile: paths in a box of 84 × 30, skill 0 near its foot and 1 near its head."""

    trained: str
    untrained: str
    band: str
    best: tuple[float, float] | None
    causal: float | None
    shape: str
    words: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column: the groups above it and what it shows."""

    group: str
    task: str
    title: str
    label: str
    kind: str


@dataclass(frozen=True, slots=True)
class Row:
    """A model."""

    entry: Entry
    page: str
    ink: Ink
    rank: Cell
    reasons: list[str]
    cells: list[Cell]
    sparks: dict[int, Spark]


@dataclass(frozen=True, slots=True)
class ClaimsLine:
    """What the board says of a claims file: its title, its place on the claims page, the verdicts counted."""

    title: str
    anchor: str
    counts: str


@dataclass(frozen=True, slots=True)
class BoardView:
    """A board as its table."""

    board: Board
    columns: list[Column]
    groups: list[tuple[str, int]]
    tasks: list[tuple[str, str, int]]
    ranked: list[Row]
    unranked: list[Row]
    facts: list[str]
    notes: list[str]
    has_sparks: bool
    has_gaps: bool
    claims: list[ClaimsLine]


T = TypeVar("T")
_Make = Callable[[Site, Board, Entry], Cell]


def board_view(site: Site, board: Board) -> BoardView:
    """Columns and rows of a board."""
    built = _columns(board)
    columns = [column for column, _ in built]
    rows = [_row(site, board, entry, built) for entry in board.entries]
    return BoardView(
        board=board,
        columns=columns,
        groups=_runs([column.group for column in columns]),
        tasks=[(task, group, size) for (group, task), size in _runs([(c.group, c.task) for c in columns])],
        ranked=[row for row in rows if row.entry.rank is not None],
        unranked=[row for row in rows if row.entry.rank is None],
        facts=[
            plural(len(board.entries), "model"),
            plural(len(board.tasks), "task"),
            plural(len(board.seeds), "seed"),
        ],
        notes=_notes(site, board),
        has_sparks="probe_profile" in board.protocols,
        has_gaps="causal" in board.protocols,
        claims=[
            ClaimsLine(judged.claims.title, judged.slug, counts_in_words(judged))
            for judged in site.judged
            if judged.board.identity == board.identity
        ],
    )


def _columns(board: Board) -> list[tuple[Column, _Make]]:
    built: list[tuple[Column, _Make]] = [
        (Column("Behaviour", "", "Mean OOD", f"headline: mean of {board.suite.headline}", "headline"), headline_cell),
        (Column("Behaviour", "", "Gate", "cells that pass the gate", "gate"), _gate),
    ]
    if "behaviour" in board.protocols:
        for task, spec in board.tasks.items():
            train = spec.lengths.train
            within = Column("Behaviour", task, "in", f"token skill on {task} at the training length {train}", "skill")
            beyond = Column("Behaviour", task, "out", f"mean token skill on {task} at longer lengths", "skill")
            built.append((within, _metric(task, "behaviour.skill", length=train)))
            built.append((beyond, _metric(task, "behaviour.ood_skill")))
    if "probe_profile" in board.protocols:
        for task, spec in board.tasks.items():
            label = f"probe skill for {spec.target} by site on {task}; sorts by best site"
            make = _metric(task, "probe_profile.best_site_index", variable=spec.target, on="skill")
            built.append((Column("Readability", task, "by site", label, "spark"), make))
    if "causal" in board.protocols:
        for task in board.tasks:
            for title, place in (("means", HEADLINE), ("paper", PAPER)):
                ruler = "class means" if place is HEADLINE else "probe weights, zero fill: the paper's"
                label = f"best site minus causal site on {task}, ruler: {ruler}"
                built.append((Column("Causality", task, title, label, "gap"), _metric(task, "causal.gap", **place)))
    return built


def _metric(task: str, metric: str, **where: str | int) -> _Make:
    def make(site: Site, _board: Board, entry: Entry) -> Cell:
        estimate = site.estimates[entry.identity].get(task, metric, where)
        protocol = metric.partition(".")[0]
        absent = entry.why_missing(task, protocol)
        is_skill = protocol == "behaviour"
        return cell_of(estimate, 2 if is_skill else None, bar=is_skill, absent=absent)

    return make


def headline_cell(site: Site, board: Board, entry: Entry) -> Cell:
    """The metric that ranks; muted for a model without a rank, missing where a task has no value."""
    found = site.rankings[board.identity].headlines.get(entry.identity)
    if found is not None:
        shown, bar = number(found.value, "skill"), bar_of(found.value, found.low, found.high)
        if found.low is None or found.high is None:
            return Cell(shown, repr(found.value), note=why_no_interval(len(board.seeds)), bar=bar)
        interval = f"{number(found.low, 'skill')} to {number(found.high, 'skill')}"
        return Cell(shown, repr(found.value), interval, bar=bar)
    values = [e.number for e in _headline_by_task(site, board, entry) if e is not None and e.number is not None]
    if len(values) < len(board.tasks) or entry.lacks:
        return missing(f"{plural(len(values), 'task')} of {len(board.tasks)}: no mean over an incomplete set")
    mean = sum(values) / len(values)
    return Cell(number(mean, "skill"), repr(mean), note="not ranked", muted=True, bar=bar_of(mean, None, None))


def _headline_by_task(site: Site, board: Board, entry: Entry) -> list[Estimate | None]:
    return [site.estimates[entry.identity].get(task, board.suite.headline) for task in board.tasks]


def _gate(_site: Site, board: Board, entry: Entry) -> Cell:
    gates = entry.gates()
    if not gates:
        return missing("no cell was measured")
    passed = sum(gate.passed for gate in gates.values())
    low = sorted({task for (task, _), gate in gates.items() if not gate.passed})
    note = f"below on {', '.join(low)}" if low else "every measured cell passes"
    return Cell(f"{passed}/{len(board.tasks) * len(board.seeds)}", repr(float(passed)), note=note, muted=bool(low))


def _row(site: Site, board: Board, entry: Entry, built: list[tuple[Column, _Make]]) -> Row:
    ranked = entry.rank is not None
    sparks = {
        index: _spark(site, board, entry, column.task)
        for index, (column, _) in enumerate(built)
        if column.kind == "spark"
    }
    return Row(
        entry=entry,
        page=site.model_page(entry),
        ink=site.ink(entry),
        rank=plain(entry.rank, "", 0) if entry.rank is not None else missing("not ranked"),
        reasons=[] if ranked else [*entry.unranked, f"{entry.measured} of {plural(entry.asked, 'measurement')}"],
        cells=[make(site, board, entry) for _, make in built],
        sparks=sparks,
    )


def _spark(site: Site, board: Board, entry: Entry, task: str) -> Spark:
    sites, estimates = entry.sites(task), site.estimates[entry.identity]
    target = board.tasks[task].target

    def found(control: str) -> list[tuple[float, Estimate]]:
        places = [{"site": name, "variable": target, "control": control} for name in sites]
        read = [estimates.get(task, "probe_profile.skill", place) for place in places]
        return [(_across(i, len(sites)), e) for i, e in enumerate(read) if e is not None and e.number is not None]

    trained, untrained = found("trained"), found("untrained")
    best = estimates.get(task, "probe_profile.best_site_index", {"variable": target, "on": "skill"})
    causal = estimates.get(task, "causal.causal_site_index", HEADLINE)
    at_best = best.number if best is not None else None
    at_causal = causal.number if causal is not None else None
    heights = [(x, _up(e.number or 0.0)) for x, e in trained]
    dot = next(((x, y) for i, (x, y) in enumerate(heights) if at_best is not None and i == round(at_best)), None)
    values = ", ".join(f"{e.number or 0.0:.2f}" for _, e in trained)
    return Spark(
        trained=_path([(x, _up(e.number or 0.0)) for x, e in trained]),
        untrained=_path([(x, _up(e.number or 0.0)) for x, e in untrained]),
        band=_band(trained),
        best=dot,
        causal=None if at_causal is None else _across(at_causal, len(sites)),
        shape=SHAPES[board.tasks[task].structure],
        words=f"probe skill by site: {values}" if values else "",
    )


def _across(index: float, count: int) -> float:
    return round(5 + (SPARK_WIDTH - 10) * index / max(1, count - 1), 1)


def _up(skill: float) -> float:
    return round(SPARK_HEIGHT - 6 - (SPARK_HEIGHT - 11) * min(1.0, max(-0.05, skill)), 1)


def _path(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _band(trained: list[tuple[float, Estimate]]) -> str:
    both = [(x, e.low, e.high) for x, e in trained if e.low is not None and e.high is not None]
    return _path([(x, _up(high)) for x, _, high in both] + [(x, _up(low)) for x, low, _ in reversed(both)])


def _notes(site: Site, board: Board) -> list[str]:
    """What a reader must know before reading ranks."""
    if len(board.seeds) == 1:
        covers = (
            f"One seed ({board.seeds[0]}): intervals cover the choice of sequences only, "
            "not what another training run would give."
        )
    else:
        covers = f"Intervals resample {len(board.seeds)} seeds and whole sequences."
    paired = "by seed and by sequence" if site.rankings[board.identity].paired_by_sequence else "by seed"
    return [f"{covers} Models share a rank if the 95 % interval of their difference, paired {paired}, includes 0."]


def _runs(values: list[T]) -> list[tuple[T, int]]:
    """Equal neighbours together, with how many they are."""
    runs: list[tuple[T, int]] = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1] = (value, runs[-1][1] + 1)
        else:
            runs.append((value, 1))
    return runs
