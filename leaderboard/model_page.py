"""A model's page: every metric with its interval, and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..suite.measure.statistics import why_no_interval
from ..suite.spec.dump import dump_yaml, resolved_values
from ..suite.spec.results import Provenance
from ..suite.spec.schema import ReferenceModel
from .axes import Figure
from .boards import Board, Entry
from .cells import Cell, cell_of, missing, plain
from .colours import SHAPES, Ink
from .estimates import At, Estimates
from .figures import causal_of_model, profile_of_model, skill_of_model, training_of_model
from .index_page import headline_cell
from .mechanism_panels import MARKS, Panels, panels_of_model
from .ranking import Difference
from .site import Site
from .text import signed

__all__ = ["MetricTable", "ModelView", "TaskMetrics", "metric_tables", "model_view"]

_EMPTY = Cell("", None)
"""Where a metric has no such place: retention at the training length, say."""
_SPREAD = ("site", "length", "step", "rank", "k")


@dataclass(frozen=True, slots=True)
class MetricTable:
    """Metrics with their other coordinates down, and one coordinate (site, length) across."""

    across: str
    columns: list[str]
    rows: list[tuple[str, str, str, list[Cell]]]
    """Title, coordinates, unit, cells."""


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """All metrics of one protocol on one task."""

    task: str
    protocol: str
    title: str
    seeds: int
    tables: list[MetricTable]


@dataclass(frozen=True, slots=True)
class Versus:
    """The paired difference to another model."""

    title: str
    page: str
    ink: Ink
    value: str
    difference: str
    interval: str
    verdict: str


@dataclass(frozen=True, slots=True)
class CellRow:
    """How one cell was trained, and what it shows at the gate."""

    task: str
    page: str
    shape: str
    seed: int
    steps: Cell
    loss: Cell
    accuracy: Cell
    gate: str
    passed: bool | None
    seconds: Cell
    memory: Cell
    identity: str


@dataclass(frozen=True, slots=True)
class ModelView:
    """Everything on the page."""

    board: Board
    entry: Entry
    ink: Ink
    headline: Cell
    ranked: int
    parameters: list[int]
    behaviour: Figure | None
    training: Figure | None
    profiles: list[Figure]
    causal: list[Figure]
    panels: Panels
    marks: dict[str, str]
    versus: list[Versus]
    cells: list[CellRow]
    metrics: list[TaskMetrics]
    provenance: list[tuple[str, str]]
    spec: str
    command: list[str]


def model_view(site: Site, board: Board, entry: Entry) -> ModelView:
    """Collect the page of a model."""
    estimates = site.estimates[entry.identity]
    profiles = [
        figure
        for task, spec in board.tasks.items()
        for variable in [spec.target, *(name for name in spec.states if name != spec.target)]
        if (figure := profile_of_model(site, board, entry, task, variable)) is not None
    ]
    causal = [figure for task in board.tasks if (figure := causal_of_model(site, board, entry, task)) is not None]
    return ModelView(
        board=board,
        entry=entry,
        ink=site.ink(entry),
        headline=headline_cell(site, board, entry),
        ranked=len(board.ranked),
        parameters=sorted({cell.parameters for cell in entry.cells.values()}),
        behaviour=skill_of_model(site, board, entry),
        training=training_of_model(site, board, entry),
        profiles=profiles,
        causal=causal,
        panels=panels_of_model(site, board, entry),
        marks=MARKS,
        versus=_versus(site, board, entry),
        cells=[_cell_row(site, board, entry, task, seed) for task in board.tasks for seed in board.seeds],
        metrics=[
            TaskMetrics(task, protocol, spec.title, estimates.seeds(task, protocol), tables)
            for task in board.tasks
            for protocol, spec in board.protocols.items()
            if (tables := metric_tables(estimates, board, entry, task, protocol))
        ],
        provenance=_provenance([result.provenance for _, result in sorted(entry.results.items())]),
        spec=dump_yaml(resolved_values(entry.model)),
        command=_command(board, entry),
    )


def metric_tables(estimates: Estimates, board: Board, entry: Entry, task: str, protocol: str) -> list[MetricTable]:
    """Every metric that the protocol gave on the task: over sites, over lengths, and those with neither."""
    places = estimates.places(task, protocol)
    tables: list[MetricTable] = []
    for across in (*_SPREAD, ""):
        mine = [(name, where) for name, where in places if _spread_of(where) == across]
        if not mine:
            continue
        columns = _columns(across, [where for _, where in mine], entry.sites(task)) if across else [""]
        rows: dict[tuple[str, At], list[Cell]] = {}
        for name, where in mine:
            rest = tuple(pair for pair in where if pair[0] != across)
            if (name, rest) not in rows:
                found = [estimates.get(task, f"{protocol}.{name}", _at(rest, across, column)) for column in columns]
                rows[name, rest] = [_EMPTY if estimate is None else cell_of(estimate) for estimate in found]
        heads = [str(column) if across in ("", "site") else f"{across} {column}" for column in columns]
        tables.append(MetricTable(across, heads, _named(rows, board, protocol)))
    return tables


def _at(rest: At, across: str, column: str | int) -> At:
    return tuple(sorted((*rest, (across, column)))) if across else rest


def _spread_of(where: At) -> str:
    names = {name for name, _ in where}
    return next((name for name in _SPREAD if name in names), "")


def _columns(across: str, places: Sequence[At], sites: Sequence[str]) -> list[str | int]:
    """The values of a coordinate: sites in the model's order, numbers by size."""
    found = {value for where in places for name, value in where if name == across}
    if across == "site":
        order = {name: index for index, name in enumerate(sites)}
        return sorted(found, key=lambda value: (order.get(str(value), len(order)), str(value)))
    return sorted(found, key=lambda value: (isinstance(value, str), 0 if isinstance(value, str) else value, str(value)))


def _named(
    rows: dict[tuple[str, At], list[Cell]], board: Board, protocol: str
) -> list[tuple[str, str, str, list[Cell]]]:
    declared = board.protocols[protocol].metrics
    named: list[tuple[str, str, str, list[Cell]]] = []
    for (name, rest), cells in rows.items():
        title, unit = (declared[name].title, declared[name].unit) if name in declared else (name, "")
        named.append((title, ", ".join(str(value).replace("_", " ") for _, value in rest), unit, cells))
    return named


def _versus(site: Site, board: Board, entry: Entry) -> list[Versus]:
    differences = site.rankings[board.identity].differences
    return [
        Versus(
            title=other.model.title,
            page=site.model_page(other),
            ink=site.ink(other),
            value=repr(found.value),
            difference=signed(found.value),
            interval=_ends(found, len(board.seeds)),
            verdict=_verdict(found),
        )
        for other in board.ranked
        if (found := differences.get((entry.identity, other.identity))) is not None
    ]


def _ends(difference: Difference, seeds: int) -> str:
    if difference.low is None or difference.high is None:
        return why_no_interval(seeds)
    return f"{signed(difference.low)} to {signed(difference.high)}"


def _verdict(difference: Difference) -> str:
    if not difference.tells_apart:
        return "not told apart"
    return "better" if difference.value > 0 else "worse"


def _cell_row(site: Site, board: Board, entry: Entry, task: str, seed: int) -> CellRow:
    record, gate = entry.cells.get((task, seed)), entry.gates().get((task, seed))
    untrained = missing("no training record")
    steps = untrained
    if record is not None:
        early = "stopped early" if record.stopped_early else "whole budget"
        steps = Cell(f"{record.steps:,}", repr(float(record.steps)), note=early)
    shown = "" if gate is None or gate.value is None else f"{gate.value:.3f}"
    return CellRow(
        task=task,
        page=site.task_page(board, task),
        shape=SHAPES[board.tasks[task].structure],
        seed=seed,
        steps=steps,
        loss=plain(record.curve.loss[-1], "", 4) if record is not None and record.curve.loss else untrained,
        accuracy=plain(record.clean_accuracy, "share", 4) if record is not None else untrained,
        gate=f"{shown} of {gate.at_least:g}" if gate is not None else "not measured",
        passed=None if gate is None else gate.passed,
        seconds=plain(record.seconds, "", 0) if record is not None else untrained,
        memory=plain(record.peak_memory_mb, "", 0) if record is not None else untrained,
        identity=record.cell.identity if record is not None else "",
    )


def _provenance(found: Sequence[Provenance]) -> list[tuple[str, str]]:
    """Each thing once, with all the values it had."""
    fields = ("layerstate", "commit", "python", "torch", "numpy", "platform", "device", "threads", "lock")
    said: list[tuple[str, str]] = []
    for name in fields:
        values = sorted({str(value) for entry in found if (value := getattr(entry, name)) is not None})
        if values:
            said.append((name, ", ".join(values)))
    if any(entry.dirty for entry in found):
        said.append(("checkout", "had uncommitted changes"))
    times = sorted(entry.time for entry in found)
    if times:
        said.append(("measured", times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"))
    return said


def _command(board: Board, entry: Entry) -> list[str]:
    """Lines that make the model's results again."""
    own = isinstance(entry.model, ReferenceModel)
    model = entry.name if own else f"{entry.name}.yaml"
    lines = [] if own else [f"# save the spec below as {model}, beside its module"]
    return [*lines, f"layerstate run {board.suite.name} --model {model} --out runs/{entry.name}"]
