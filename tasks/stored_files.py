"""A task's sequences as files of a data set: one Parquet file for each split and length, with tokens and all states.

Nothing in the files is believed: tokens must be of the task, labels those of the family's own rules, sequences in the
split that their content says, and the whole must have the digest that was asked for.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Batch, Task
from .errors import TaskError
from .labels import InvalidSequence, labelled
from .parameters import suggestion
from .splits import SPLITS, digest, split_of

__all__ = ["Part", "Parts", "checked_part", "content_digest", "file_name", "find_parts", "read_parts"]

_NAME = re.compile(rf"({'|'.join(SPLITS)})-([1-9][0-9]{{0,6}})\.parquet")

Parts = dict["Part", Batch]


@dataclass(frozen=True, order=True, slots=True)
class Part:
    """The sequences of one split and length."""

    split: str
    length: int


def file_name(part: Part) -> str:
    """The file of a part: ``evaluate-40.parquet``."""
    return f"{part.split}-{part.length}.parquet"


def content_digest(digests: Mapping[Part, tuple[int, str]]) -> str:
    """SHA-256 over the number of sequences and the digest of each part, in order of split and length."""
    lines = [f"{part.split} {part.length} {n} {value}\n" for part, (n, value) in sorted(digests.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def find_parts(folder: Path, config: str) -> dict[Part, Path]:
    """The files of one task in the folder of a data set.

    Raises
    ------
    TaskError
        If the folder, the task in it or its files are not there; its `field` is ``path`` or ``config``.
    """
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "is not there"
        raise TaskError(f"the folder {folder} {what}; a data set on the Hub is named with a `revision`", field="path")
    place = folder / config
    if not place.is_dir():
        known = sorted(path.name for path in folder.iterdir() if any(path.glob("*.parquet")))
        there = f"it holds {', '.join(known)}" if known else "it holds no task: `layerstate data export` makes one"
        raise TaskError(f"{folder} holds no task {config!r}{suggestion(config, known)}; {there}", field="config")
    found: dict[Part, Path] = {}
    for path in sorted(place.glob("*.parquet")):
        name = _NAME.fullmatch(path.name)
        if name is None:
            raise TaskError(
                f"{path}: a file is called <split>-<length>.parquet, the split one of {', '.join(SPLITS)}", field="path"
            )
        found[Part(name[1], int(name[2]))] = path
    if not found:
        raise TaskError(f"{place} holds no file <split>-<length>.parquet", field="path")
    return found


def read_parts(folder: Path, config: str, rules: Task, sha256: str) -> Parts:
    """All sequences of one task of a data set, once everything about them is right.

    Parameters
    ----------
    folder : Path
        Of the data set.
    config : str
        Which of its tasks.
    rules : Task
        Labels the sequences.
    sha256 : str
        The digest that they must have.

    Raises
    ------
    TaskError
        Naming the file, and where it can the sequence and position, that is not right.
    """
    parts: Parts = {}
    digests: dict[Part, tuple[int, str]] = {}
    for part, path in find_parts(folder, config).items():
        batch = checked_part(path, part, rules)
        digests[part] = (len(batch), digest(batch))
        parts[part] = Batch(_narrow(batch.tokens), {name: _narrow(values) for name, values in batch.states.items()})
    found = content_digest(digests)
    if found != sha256:
        held = ", ".join(f"{n} {part.split} of length {part.length}" for part, (n, _) in sorted(digests.items()))
        raise TaskError(
            f"{folder / config} has the SHA-256 {found}, the task says {sha256}: other data than it was declared with "
            f"({held})",
            field="sha256",
        )
    return parts


def checked_part(path: Path, part: Part, rules: Task) -> Batch:
    """The sequences in one file, labelled by `rules` and compared with the labels there."""
    columns = _columns(path, ("tokens", *rules.classes))
    tokens = _matrix(path, "tokens", columns["tokens"], part.length)
    try:
        right = labelled(rules, tokens)
    except InvalidSequence as error:
        raise TaskError(f"{path}: {error}", field="path") from error
    for name, expected in right.states.items():
        _compare(path, name, _matrix(path, name, columns[name], part.length), expected)
    _check_split(path, part, tokens)
    return right


def _columns(path: Path, wanted: tuple[str, ...]) -> dict[str, Any]:
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    try:
        names: list[str] = parquet.read_schema(path).names
        missing = [name for name in wanted if name not in names]
        if missing:
            raise TaskError(
                f"{path} has no column {', '.join(repr(name) for name in missing)}, only {', '.join(names) or 'none'}",
                field="path",
            )
        table: Any = parquet.read_table(path, columns=list(wanted))
    except (OSError, ValueError, arrow.ArrowException) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise TaskError(
            f"{path} is damaged or no Parquet file ({reason}); export or fetch it again", field="path"
        ) from error
    if not table.num_rows:
        raise TaskError(f"{path} holds no sequence", field="path")
    return {name: table[name].combine_chunks() for name in wanted}


def _matrix(path: Path, name: str, column: Any, length: int) -> NDArray[Any]:
    """A column of lists as an array (n, length)."""
    arrow: Any = importlib.import_module("pyarrow")
    kind: Any = column.type
    lists = arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind)
    if not lists or not arrow.types.is_integer(kind.value_type):
        raise TaskError(
            f"{path}: the column {name!r} is of type {kind}; lists of whole numbers would be right", field="path"
        )
    lengths = column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != length)
    if len(wrong):
        row = int(wrong[0])
        has = "is missing" if lengths[row] < 0 else f"has {lengths[row]} entries"
        raise TaskError(f"{path}: sequence {row}: {name} {has}, the length is {length}", field="path")
    values: Any = column.flatten()
    if values.null_count:
        place = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise TaskError(
            f"{path}: sequence {place // length}, position {place % length}: {name} is missing", field="path"
        )
    return values.to_numpy(zero_copy_only=False).reshape(len(column), length)


def _compare(path: Path, name: str, stored: NDArray[Any], expected: NDArray[Any]) -> None:
    wrong = np.argwhere(stored != expected)
    if len(wrong):
        row, position = (int(number) for number in wrong[0])
        raise TaskError(
            f"{path}: sequence {row}, position {position}: {name} is {stored[row, position]}, by the family's rules it "
            f"is {expected[row, position]} ({len(wrong)} such places in the file)",
            field="path",
        )


def _check_split(path: Path, part: Part, tokens: NDArray[Any]) -> None:
    found = split_of(tokens)
    wrong = np.flatnonzero(found != SPLITS.index(part.split))
    if len(wrong):
        row = int(wrong[0])
        raise TaskError(
            f"{path}: sequence {row} belongs to the split {SPLITS[found[row]]!r} by its content, not to "
            f"{part.split!r}: no sequence may be in two splits",
            field="path",
        )


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.min_scalar_type(int(values.max())))
