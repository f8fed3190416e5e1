"""A task's page: all models overlaid, and what the task is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..suite.spec.dump import dump_yaml, resolved_values
from ..suite.spec.schema import TaskSpec
from .axes import Figure
from .boards import Board, Entry
from .cells import Cell, cell_of
from .colours import SHAPES, Ink
from .figures import accuracy_of_models, profile_of_models
from .intervention_figures import patching_of_models
from .site import Site
from .text import number

__all__ = ["TaskRow", "TaskView", "task_view"]

_WORDS = ("best_site", "causal_site", "shape")
STRUCTURES = {
    "prefix_update": "each token updates the state",
    "stack": "the state needs a stack",
    "other": "another structure",
}


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A model on the task."""

    title: str
    page: str
    ink: Ink
    ranked: bool
    cells: list[Cell]


@dataclass(frozen=True, slots=True)
class TaskView:
    """Everything on the page."""

    board: Board
    task: TaskSpec
    shape: str
    structure: str
    profiles: list[Figure]
    behaviour: Figure | None
    patching: Figure | None
    columns: list[tuple[str, str, bool]]
    rows: list[TaskRow]
    chance: list[tuple[str, str]]
    digests: list[tuple[str, list[str]]]
    spec: str


def task_view(site: Site, board: Board, name: str) -> TaskView:
    """Collect the page of a task."""
    task = board.tasks[name]
    variables = [task.target, *(state for state in task.states if state != task.target)]
    columns = [*_columns(board, task), *_compared(site, board, task)]
    profiles = [f for v in variables if (f := profile_of_models(site, board, name, v)) is not None]
    return TaskView(
        board=board,
        task=task,
        shape=SHAPES[task.structure],
        structure=STRUCTURES[task.structure],
        profiles=profiles,
        behaviour=accuracy_of_models(site, board, name),
        patching=patching_of_models(site, board, name),
        columns=[(title, label, metric.endswith(_WORDS)) for title, label, metric, _ in columns],
        rows=[_row(site, entry, name, columns) for entry in board.entries],
        chance=_chance(board.entries, name),
        digests=_digests(board.entries, name),
        spec=dump_yaml(resolved_values(task)),
    )


_Column = tuple[str, str, str, dict[str, str | int]]
"""Title, label, metric, coordinates."""


def _columns(board: Board, task: TaskSpec) -> list[_Column]:
    on: dict[str, str | int] = {"variable": task.target, "on": "skill"}
    columns: list[_Column] = []
    if "behaviour" in board.protocols:
        train: dict[str, str | int] = {"length": task.lengths.train}
        columns += [
            ("accuracy", "token accuracy at the training length", "behaviour.accuracy", train),
            ("skill", "token skill at the training length", "behaviour.skill", train),
            ("OOD skill", "mean token skill at longer lengths", "behaviour.ood_skill", {}),
        ]
    if "probe_profile" in board.protocols:
        columns += [
            ("best site", "earliest site whose probe is within reach of the best", "probe_profile.best_site", on),
            ("shape", "shape of the profile", "probe_profile.shape", on),
            ("early share", "skill at block.0 as a share of the largest", "probe_profile.early_share", on),
            ("late share", "rise over the last block as a share of the largest", "probe_profile.late_share", on),
        ]
    if "causal" in board.protocols:
        means: dict[str, str | int] = {"ruler": "means", "fill": "mean"}
        columns += [
            (
                "causal site",
                "earliest site whose effect is within reach of the largest",
                "causal.causal_site",
                means,
            ),
            ("gap", "best site minus causal site, ruler: class means", "causal.gap", means),
            (
                "gap, probe",
                "best site minus causal site, ruler: probe",
                "causal.gap",
                {"ruler": "probe", "fill": "zero"},
            ),
        ]
    return columns


def _compared(site: Site, board: Board, task: TaskSpec) -> list[_Column]:
    """Effects of removed components, and the grouping, where several models have them."""
    columns: list[_Column] = []
    for name, spec in board.protocols.items():
        if "retrain_effect" in spec.metrics:
            title = f"without {name.partition('_')[0]}"
            label = f"{spec.title}: effect of training without it, pp, at the training length"
            columns.append((title, label, f"{name}.retrain_effect", {"length": task.lengths.train}))
        if "grouping" in spec.metrics:
            label = "distance of S3's depth profile to Dyck's minus that to Parity's; above 0: S3 goes with Parity"
            columns.append(("grouping", label, f"{name}.grouping", {}))
    return [column for column in columns if _has_several(site, board, task.name, column)]


def _has_several(site: Site, board: Board, task: str, column: _Column) -> bool:
    _, _, metric, where = column
    found = (site.estimates[entry.identity].get(task, metric, where) for entry in board.entries)
    return sum(estimate is not None and estimate.number is not None for estimate in found) > 1


def _row(site: Site, entry: Entry, task: str, columns: Sequence[_Column]) -> TaskRow:
    estimates = site.estimates[entry.identity]
    cells: list[Cell] = []
    for _, _, metric, where in columns:
        protocol = metric.partition(".")[0]
        cells.append(cell_of(estimates.get(task, metric, where), absent=entry.why_missing(task, protocol)))
    return TaskRow(entry.model.title, site.model_page(entry), site.ink(entry), entry.rank is not None, cells)


def _chance(entries: Sequence[Entry], task: str) -> list[tuple[str, str]]:
    """Chance at each length, in the order of lengths."""
    for entry in entries:
        for (name, _, _), result in sorted(entry.results.items()):
            if name == task:
                ordered = sorted(result.chance.items(), key=lambda pair: (len(pair[0]), pair[0]))
                return [(length, number(value, "share")) for length, value in ordered]
    return []


def _digests(entries: Sequence[Entry], task: str) -> list[tuple[str, list[str]]]:
    """Split and length to the digests of the data that were used; more than one: models were measured on other data."""
    found: dict[str, set[str]] = {}
    for entry in entries:
        for (name, _, _), result in entry.results.items():
            for data, digest in result.digests.items() if name == task else ():
                found.setdefault(data, set()).add(digest)
    return [(data, sorted(digests)) for data, digests in sorted(found.items(), key=_by_split)]


def _by_split(pair: tuple[str, set[str]]) -> tuple[str, int, str]:
    split, _, length = pair[0].partition("/")
    return split, int(length) if length.isdecimal() and len(length) < 10 else 0, length
