"""A task that is read from a data set: the same bytes as were stored, and nothing wrong about them goes unseen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from layerstate.tasks import Batch, Task, TaskError, digest, draw, load_task, split_of
from layerstate.tasks.stored import StoredTask
from layerstate.tasks.stored_files import Part, content_digest, file_name

PARTS = {
    Part("train", 12): 60,
    Part("validation", 12): 10,
    Part("probe_train", 12): 20,
    Part("probe_test", 12): 10,
    Part("evaluate", 12): 20,
    Part("evaluate", 16): 20,
}
DYCK = load_task("dyck", {"bracket_types": 2, "max_depth": 3}, "depth")
FILE = file_name(Part("evaluate", 16))


def stored(folder: Path, task: Task = DYCK) -> tuple[dict[Part, Batch], str]:
    """Write every part of a task into `folder/t`; the parts and their digest."""
    (folder / "t").mkdir(parents=True)
    parts = {part: draw(task, part.split, n, part.length, seed=0) for part, n in PARTS.items()}
    for part, batch in parts.items():
        columns = {"tokens": batch.tokens.tolist(), **{name: each.tolist() for name, each in batch.states.items()}}
        pq.write_table(pa.table(columns), folder / "t" / file_name(part))
    return parts, content_digest({part: (len(batch), digest(batch)) for part, batch in parts.items()})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def reading(folder: Path, sha256: str, task: Task = DYCK) -> StoredTask:
    return StoredTask(task, lambda: folder, "t", sha256)


def changed(folder: Path, change: Callable[[dict[str, list[Any]]], dict[str, Any] | None]) -> None:
    """Rewrite the file of the longest evaluation data."""
    path = folder / "t" / FILE
    columns = pq.read_table(path).to_pydict()
    pq.write_table(pa.table(change(columns) or columns), path)


def test_what_is_read_is_what_was_stored(folder: Path, task: Task) -> None:
    parts, sha256 = stored(folder, task)
    read = reading(folder, sha256, task)
    assert isinstance(read, Task)
    assert (read.family, read.version, read.vocabulary, read.target) == (
        task.family,
        task.version,
        task.vocabulary,
        task.target,
    )
    for part, n in PARTS.items():
        if part.split != "train":
            assert digest(draw(read, part.split, n, part.length, seed=5)) == digest(parts[part])
    first = draw(read, "evaluate", 7, 16, seed=0)
    assert np.array_equal(first.tokens, parts[Part("evaluate", 16)].tokens[:7])


def test_training_draws_from_what_is_stored_and_differs_by_seed(folder: Path) -> None:
    parts, sha256 = stored(folder)
    read = reading(folder, sha256)
    known = {tuple(row) for row in parts[Part("train", 12)].tokens.tolist()}
    drawn = [draw(read, "train", 200, 12, seed=(1, step)) for step in (0, 1)]
    assert {tuple(row) for batch in drawn for row in batch.tokens.tolist()} <= known
    assert digest(drawn[0]) != digest(drawn[1])
    assert digest(drawn[0]) == digest(draw(reading(folder, sha256), "train", 200, 12, seed=(1, 0)))


def test_shorter_training_sequences_are_beginnings_that_are_training_data_themselves(folder: Path) -> None:
    parts, sha256 = stored(folder)
    batch = draw(reading(folder, sha256), "train", 300, 5, seed=0)
    beginnings = {tuple(row[:5]) for row in parts[Part("train", 12)].tokens.tolist()}
    assert {tuple(row) for row in batch.tokens.tolist()} <= beginnings
    assert not split_of(batch.tokens).any()
    assert digest(DYCK.label(batch.tokens)) == digest(batch)  # type: ignore[attr-defined]


def test_more_than_is_stored_is_an_error(folder: Path) -> None:
    _, sha256 = stored(folder)
    read = reading(folder, sha256)
    with pytest.raises(TaskError, match="holds 20 sequences of split 'evaluate' and length 16, 21 are asked for"):
        draw(read, "evaluate", 21, 16, seed=0)
    with pytest.raises(TaskError, match="no sequence of split 'evaluate' and length 24, only evaluate 12, evaluate 16"):
        draw(read, "evaluate", 1, 24, seed=0)
    assert read.sample(9, 12, np.random.default_rng(0)).tokens.shape == (9, 12)


def wrong_label(columns: dict[str, list[Any]]) -> None:
    columns["depth"][3][7] = (columns["depth"][3][7] + 1) % 4


def wrong_token(columns: dict[str, list[Any]]) -> None:
    columns["tokens"][2][5] = 9


def one_token_less(columns: dict[str, list[Any]]) -> None:
    columns["tokens"][4].pop()


def missing_value(columns: dict[str, list[Any]]) -> None:
    columns["top"][1][2] = None


def missing_row(columns: dict[str, list[Any]]) -> None:
    columns["top"][6] = None


def missing_column(columns: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: value for name, value in columns.items() if name != "top"}


def texts(columns: dict[str, list[Any]]) -> dict[str, Any]:
    return columns | {"tokens": ["( )"] * len(columns["tokens"])}


def nothing(columns: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: pa.array([], pa.list_(pa.int64())) for name in columns}


def another_split(columns: dict[str, list[Any]]) -> dict[str, Any]:
    batch = draw(DYCK, "train", 20, 16, seed=0)
    return {"tokens": batch.tokens.tolist(), **{name: each.tolist() for name, each in batch.states.items()}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (wrong_label, r"sequence 3, position 7: depth is \d, by the family's rules it is \d \(1 such places"),
        (wrong_token, r"sequence 2, position 5: the token 9 is outside the vocabulary, which has 0 … 3"),
        (one_token_less, "sequence 4: tokens has 15 entries, the length is 16"),
        (missing_value, "sequence 1, position 2: top is missing"),
        (missing_row, "sequence 6: top is missing"),
        (missing_column, r"has no column 'top', only tokens, depth"),
        (texts, "the column 'tokens' is of type string; lists of whole numbers would be right"),
        (nothing, "holds no sequence"),
        (another_split, "sequence 0 belongs to the split 'train' by its content, not to 'evaluate'"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_place(folder: Path, change: Any, said: str) -> None:
    _, sha256 = stored(folder)
    changed(folder, change)
    with pytest.raises(TaskError, match=rf"evaluate-16\.parquet.*{said}"):
        reading(folder, sha256).parts()


@pytest.mark.parametrize("keep", [0, 3, 200])
def test_a_damaged_file_is_an_error(folder: Path, keep: int) -> None:
    _, sha256 = stored(folder)
    path = folder / "t" / FILE
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(TaskError, match=r"evaluate-16\.parquet is damaged or no Parquet file"):
        reading(folder, sha256).parts()


def test_right_sequences_that_are_others_than_declared_are_an_error(folder: Path) -> None:
    _, sha256 = stored(folder)
    with pytest.raises(TaskError, match=f"has the SHA-256 {sha256}, the task says {'ab' * 32}") as caught:
        reading(folder, "ab" * 32).parts()
    assert caught.value.field == "sha256"
    (folder / "t" / FILE).unlink()
    with pytest.raises(TaskError, match="other data than it was declared with"):
        reading(folder, sha256).parts()


def test_a_folder_a_task_and_files_that_are_not_there_are_errors(folder: Path) -> None:
    _, sha256 = stored(folder)

    def fails(place: Path, config: str, said: str) -> None:
        with pytest.raises(TaskError, match=said):
            StoredTask(DYCK, lambda: place, config, sha256).parts()

    fails(folder / "no", "t", "no is not there; a data set on the Hub is named with a `revision`")
    fails(folder / "t" / FILE, "t", "is a file, not a folder")
    fails(folder, "tt", r"holds no task 'tt' \(did you mean 't'\?\); it holds t")
    (folder / "t" / "part-0.parquet").write_bytes(b"")
    fails(folder, "t", r"part-0\.parquet: a file is called <split>-<length>\.parquet")
