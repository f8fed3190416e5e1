"""Sequences that are given get the family's own labels, and what is no sequence of a task is refused with its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layerstate.tasks import Batch, Task, TaskError, digest, load_task
from layerstate.tasks.code_validity import check_windows
from layerstate.tasks.described import origin_of, variables_of
from layerstate.tasks.labels import InvalidSequence, labelled
from layerstate.tasks.lexical import CLASS_NUMBER


def numbers(text: str) -> np.ndarray[Any, Any]:
    return np.array([[CLASS_NUMBER[symbol] for symbol in text.split()]])


def test_every_family_labels_its_own_sequences_as_it_drew_them(task: Task, rng: np.random.Generator) -> None:
    batch = task.sample(50, 60, rng)
    assert digest(labelled(task, batch.tokens.astype(np.uint8))) == digest(batch)


@pytest.mark.parametrize("wrong", [-1, 10_000])
def test_a_token_outside_the_vocabulary_is_refused_with_its_place(
    task: Task, wrong: int, rng: np.random.Generator
) -> None:
    tokens = task.sample(5, 12, rng).tokens
    tokens[3, 7] = wrong
    with pytest.raises(InvalidSequence, match=rf"sequence 3, position 7: the token {wrong} is outside the vocabulary"):
        labelled(task, tokens)


@pytest.mark.parametrize(
    ("row", "position"), [([1, 0, 1], 0), ([0, 3, 0], 1), ([0, 0, 0], 2), ([0, 2, 1], 2), ([0, 2, 3], None)]
)
def test_brackets_that_the_stack_forbids_are_refused(row: list[int], position: int | None) -> None:
    task = load_task("dyck", {"bracket_types": 2, "max_depth": 2}, "depth")
    tokens = np.array([[0, 1, 0], row])
    if position is None:
        assert labelled(task, tokens).states["depth"][1].tolist() == [1, 2, 1]
        return
    with pytest.raises(InvalidSequence, match=rf"sequence 1, position {position}: .* cannot stand there"):
        labelled(task, tokens)


@pytest.mark.parametrize(
    ("window", "position"),
    [
        ("NAME ) NAME", 1),
        ("( ] NAME", 1),
        ("( [ ) ] NAME", 2),
        ("( NAME NEWLINE )", 2),
        ("NAME NEWLINE DEDENT NAME", 2),
        ("( ) ( ] NAME", 3),
    ],
)
def test_windows_that_are_no_python_are_refused(window: str, position: int) -> None:
    with pytest.raises(InvalidSequence, match=rf"sequence 0, position {position}:"):
        check_windows(numbers(window))


@pytest.mark.parametrize("window", ["NAME ( [ NAME ] )", "if NAME : NEWLINE INDENT NAME NEWLINE DEDENT", "( ( ("])
def test_windows_of_python_are_not(window: str) -> None:
    check_windows(numbers(window))


def test_a_family_that_cannot_label_is_said_to_be_so(rng: np.random.Generator) -> None:
    class Drawn:
        family, version, target, vocabulary, classes = "drawn", 1, "a", ("x", "y"), {"a": 2}

        def sample(self, n: int, length: int, rng: np.random.Generator) -> Batch:
            raise AssertionError

        corrupt = sample

    with pytest.raises(TaskError, match=r"family 'drawn' cannot label .* needs a method label\(tokens\)"):
        labelled(Drawn(), np.zeros((1, 2), np.int64))  # type: ignore[arg-type]


def test_every_value_of_every_state_has_a_name(task: Task) -> None:
    for name, variable in variables_of(task).items():
        assert len(variable.values) == len(set(variable.values)) == task.classes[name]
        assert variable.meaning.endswith(".")
    assert "layerstate's generator" in origin_of(task).note or "attrs" in origin_of(task).note


def test_data_made_of_others_code_name_its_licences(built: dict[str, Task]) -> None:
    origin = origin_of(built["code_depth_embedded"])
    assert origin.licences == ("apache-2.0", "bsd-2-clause", "bsd-3-clause", "mit")
    assert "django 5.2.19 (BSD-3-Clause)" in origin.note
