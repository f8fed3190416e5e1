"""Tasks as a data set for `datasets`: Parquet files, specs and a card, whole or not there at all."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...tasks import digest, draw
from ...tasks.base import Batch
from ...tasks.described import origin_of, variables_of
from ...tasks.errors import TaskError
from ...tasks.hub import extra_module, hub_module
from ...tasks.registry import family_file
from ...tasks.stored_files import Part, content_digest, file_name
from ..spec.dump import dump_resolved
from ..spec.load import Located
from ..spec.schema import TaskSizes, TaskSpec
from ..spec.source import MEASURING, task_of
from .card import SPECS, Described, card_text
from .files import translated
from .folders import Outcome, new_folder
from .versions import VALIDATION_SEQUENCES

__all__ = ["TRAIN_SEQUENCES", "Exported", "Sizes", "export"]

TRAIN_SEQUENCES = 10_000
"""Training sequences that are exported unless another number is asked for."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Sizes:
    """Numbers of sequences: for training, and for each measuring split (None: as the task says)."""

    train: int = TRAIN_SEQUENCES
    measure: int | None = None


@dataclass(frozen=True)
class Exported:
    """A task of an exported data set: its name there, sequences in all, and the digest of its content."""

    name: str
    sequences: int
    sha256: str
    reader: Path


def export(tasks: list[Located], to: Path, sizes: Sizes, *, force: bool, tell: Tell) -> tuple[Outcome, list[Exported]]:
    """Write tasks into one folder that `datasets.load_dataset(folder, name)` reads.

    Parameters
    ----------
    tasks : list of Located
        Valid specs, each of another name.
    to : Path
        The folder. It appears when everything in it is written.
    sizes : Sizes
        How many sequences.
    force : bool
        Whether an export of other content may be replaced.
    tell : callable
        Gets a line for each task while it is written.

    Returns
    -------
    Outcome
        What became of the folder.
    list of Exported
        What is in it.

    Raises
    ------
    TaskError
        Without the extra `hf`, for two tasks of one name, and where a task has too few sequences.
    StoreError
        If the folder cannot be written, is no export, or is one of other content.
    """
    _check_names(tasks)
    datasets = extra_module("datasets", "an export")
    hub = hub_module("an export")
    described: list[Described] = []
    with new_folder(to, force) as folder:
        try:
            for task in tasks:
                tell(f"{task.name}: drawing and writing")
                described.append(_write_task(datasets, folder.place, task, sizes))
            _write(folder.place / "README.md", card_text(hub, described, _options(sizes)))
        except OSError as error:
            raise translated(error, to, "--to") from error
    names = [
        Exported(
            each.spec.name, sum(n for n, _ in each.parts.values()), each.sha256, to / SPECS / f"{each.reader}.yaml"
        )
        for each in described
    ]
    return folder.outcome, names


def _check_names(tasks: list[Located]) -> None:
    seen: dict[str, Located] = {}
    for task in tasks:
        other = seen.setdefault(task.name, task)
        if other is not task:
            raise TaskError(
                f"two tasks have the name {task.name!r} ({other.path} and {task.path}); give one another name"
            )
        if cast("TaskSpec", task.spec).source == "dataset":
            raise TaskError(
                f"the task {task.name!r} ({task.path}) is read from a data set; export the one it was drawn by"
            )
        if task.name == SPECS:
            raise TaskError(
                f"a task of an export cannot be called {SPECS!r}, as the folder of its specs is ({task.path})"
            )
        if "tokens" in task_of(task).classes:
            raise TaskError(f"the task {task.name!r} has a state variable `tokens`, and so is the column of the tokens")


def _options(sizes: Sizes) -> list[str]:
    given = [] if sizes.train == TRAIN_SEQUENCES else ["--train", str(sizes.train)]
    return given + ([] if sizes.measure is None else ["--n", str(sizes.measure)])


def _write_task(datasets: Any, folder: Path, task: Located, sizes: Sizes) -> Described:
    spec = _sized(cast("TaskSpec", task.spec), sizes)
    source = task_of(task)
    variables = variables_of(source)
    features = _features(datasets, source.vocabulary, {name: each.values for name, each in variables.items()})
    (folder / spec.name).mkdir()
    parts: dict[Part, tuple[int, str]] = {}
    for split, length, n in _wanted(spec, sizes):
        batch = draw(source, split, n, length, seed=0)
        part = Part(split, length)
        parts[part] = n, digest(batch)
        _write_part(folder / spec.name / file_name(part), batch, features)
    sha256 = content_digest(parts)
    spec, reader = _write_specs(folder / SPECS, task, spec, sha256)
    text = dump_resolved(replace(task, spec=spec))
    return Described(spec, source, variables, origin_of(source), parts, sha256, reader, text)


def _sized(spec: TaskSpec, sizes: Sizes) -> TaskSpec:
    """The spec with the numbers of sequences that are exported, drawn by its family from now on."""
    drawn = spec.model_copy(update={"source": "generator", **dict.fromkeys(("path", "config", "revision", "sha256"))})
    if sizes.measure is None:
        return drawn
    n = sizes.measure
    return drawn.model_copy(update={"sizes": TaskSizes(probe_train=n, probe_test=n, evaluate=n)})


def _wanted(spec: TaskSpec, sizes: Sizes) -> Iterator[tuple[str, int, int]]:
    yield "train", spec.lengths.train, sizes.train
    yield "validation", spec.lengths.train, VALIDATION_SEQUENCES
    for split in MEASURING:  # protocols read them at every length: chance, for one, is fitted at each
        for length in spec.lengths.evaluate:
            yield split, length, getattr(spec.sizes, split)


def _features(datasets: Any, vocabulary: tuple[str, ...], values: dict[str, tuple[str, ...]]) -> Any:
    """Lists of class labels: `datasets` shows the symbol of each token and the name of each value."""

    def labels(names: tuple[str, ...]) -> Any:
        return datasets.List(datasets.ClassLabel(names=list(names)))

    return datasets.Features({"tokens": labels(vocabulary), **{name: labels(each) for name, each in values.items()}})


def _write_part(path: Path, batch: Batch, features: Any) -> None:
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    schema = features.arrow_schema
    columns: list[Any] = []
    for name in schema.names:
        values = batch.tokens if name == "tokens" else batch.states[name]
        ends = np.arange(len(values) + 1, dtype=np.int32) * np.int32(values.shape[1])
        columns.append(arrow.ListArray.from_arrays(arrow.array(ends), arrow.array(values.ravel())))
    with path.open("wb") as file:
        parquet.write_table(arrow.table(columns, schema=schema), file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())


def _write_specs(folder: Path, task: Located, spec: TaskSpec, sha256: str) -> tuple[TaskSpec, str]:
    """Write the spec that draws the task and the one that reads it; the first, and the name of the second."""
    folder.mkdir(exist_ok=True)
    own = family_file(spec.family, task.base)
    if own is not None:  # a family of the user's own goes along, so that the labels can be checked anywhere
        file, function = own
        name = f"{spec.name}_family.py"
        _write(folder / name, file.read_text(encoding="utf-8"))
        spec = spec.model_copy(update={"family": f"{name}:{function}"})
    reader = f"{spec.name[:56]}_dataset"
    stored = {"name": reader, "title": f"{spec.title[:260]} (read from a data set)", "source": "dataset", "path": ".."}
    reading = spec.model_copy(update={**stored, "config": spec.name, "sha256": sha256})
    for each in (spec, reading):
        _write(folder / f"{each.name}.yaml", dump_resolved(replace(task, spec=each)))
    return spec, reader


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
