"""Code-Depth: lexical classes, windows, corruption, the shipped data and the loader for the Hub."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layerstate.tasks import SPLITS, Task, TaskError, digest, draw, load_task, split_of
from layerstate.tasks.code_corruption import corrupted_window
from layerstate.tasks.code_data import METADATA_KEY, embedded_functions, functions_of
from layerstate.tasks.code_depth import CodeDepth
from layerstate.tasks.code_windows import Lines, window_starts
from layerstate.tasks.lexical import CLASS_NUMBER, CLASSES, CLOSE_OF, lexical_classes

SHA256 = "dbd22242d47fce95fa361ead7bd969244b593531925e6539add1754a78672298"


def symbols(source: str) -> str | None:
    classes = lexical_classes(source)
    return None if classes is None else " ".join(CLASSES[number] for number in classes)


def numbers(text: str) -> list[int]:
    return [CLASS_NUMBER[symbol] for symbol in text.split()]


def is_valid(tokens: list[int]) -> bool:
    stack: list[int] = []
    for token in tokens:
        if token in CLOSE_OF:
            stack.append(CLOSE_OF[token])
        elif token in CLOSE_OF.values():
            if not stack or stack.pop() != token:
                return False
        elif CLASSES[token] in ("NEWLINE", "INDENT", "DEDENT") and stack:
            return False
    return True


def depth_at(tokens: list[int], position: int) -> int:
    return sum((token in CLOSE_OF) - (token in CLOSE_OF.values()) for token in tokens[: position + 1])


def test_about_forty_classes_brackets_first() -> None:
    assert 38 <= len(CLASSES) <= 44
    assert CLASSES[:6] == ("(", ")", "[", "]", "{", "}")
    assert len(set(CLASSES)) == len(CLASSES)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(*b):\n    return b[0]", "def NAME ( * NAME ) : NEWLINE INDENT return NAME [ NUMBER ] NEWLINE DEDENT"),
        ("x = {'a': -1.5e3}  # note", "NAME = { STRING : + NUMBER } COMMENT NEWLINE"),
        ("f(\n  1,\n\n  2)", "NAME ( NUMBER , NUMBER ) NEWLINE"),
        ("x = f'{a}{b:>{w}}' rb'c'", "NAME = STRING STRING NEWLINE"),
        ("x += y if not z else None", "NAME += NAME if not NAME else None NEWLINE"),
        ("async def f(): await g()", "await def NAME ( ) : await NAME ( ) NEWLINE"),
        ("x = 1if y else 2", "NAME = NUMBER if NAME else NUMBER NEWLINE"),
        ("match = print", "NAME = NAME NEWLINE"),
    ],
)  # fmt: skip
def test_text_becomes_classes(source: str, expected: str) -> None:
    assert symbols(source) == expected


@pytest.mark.parametrize(
    "source",
    ["f(]", "f(", "f)", "x = 'a", "x = $", "x = 0777", "x = 10L", "def f():\n    a\n  b", 'x = """a', "a <> b"],
)
def test_text_that_does_not_tokenise_is_left_out_and_counted(source: str) -> None:
    assert symbols(source) is None
    functions = functions_of([source, "def f(): pass"])
    assert functions.left_out == 1
    assert functions.lengths.tolist() == [7]


def test_a_method_may_keep_the_indentation_of_its_file() -> None:
    assert symbols("def f(self):\n        return 1\n") == symbols("def f(self):\n    return 1\n")


def test_windows_begin_at_lines_stay_in_their_block_and_do_not_overlap() -> None:
    functions = embedded_functions()
    starts = window_starts(Lines.of(functions), 40)
    windows = functions.classes[starts[:, None] + np.arange(40)]
    assert np.diff(starts).min() >= 40
    ends = np.cumsum(functions.lengths)
    function = np.searchsorted(ends, starts, side="right")
    assert (starts + 40 <= ends[function]).all()
    first_of_function = starts == ends[function] - functions.lengths[function]
    layout = [CLASS_NUMBER[name] for name in ("NEWLINE", "INDENT", "DEDENT")]
    assert np.isin(functions.classes[starts - 1], layout)[~first_of_function].all()
    assert not np.isin(windows[:, 0], layout).any()
    steps = (windows == CLASS_NUMBER["INDENT"]).astype(int) - (windows == CLASS_NUMBER["DEDENT"])
    assert steps.cumsum(axis=1).min() == 0
    assert all(is_valid(row) for row in windows[::50].tolist())


def test_a_line_inside_a_block_begins_a_window_only_if_the_block_is_long_enough() -> None:
    functions = functions_of(["def f():\n    if a:\n        b = c\n    d = e\n    g = h\n"])
    starts = window_starts(Lines.of(functions), 4)
    found = [" ".join(CLASSES[token] for token in functions.classes[start : start + 4]) for start in starts]
    assert found == [
        "def NAME ( )",
        "if NAME : NEWLINE",
        "NAME = NAME NEWLINE",
        "NAME = NAME NEWLINE",
        "NAME = NAME NEWLINE",
    ]
    assert len(window_starts(Lines.of(functions), 5)) == 3, "b = c cannot reach over its DEDENT"


def test_the_shipped_file_has_no_text_and_says_where_it_comes_from() -> None:
    with resources.as_file(resources.files("layerstate.tasks") / "data" / "code_depth_embedded.parquet") as path:
        table = pq.read_table(path)
        assert path.stat().st_size < 2_000_000
    assert table.column_names == ["package", "classes"]
    metadata = json.loads(table.schema.metadata[METADATA_KEY])
    licences = {package["licence"] for package in metadata["packages"]}
    assert licences <= {"MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0"}
    assert {package["name"] for package in metadata["packages"]} == set(table["package"].to_pylist())
    assert all(package["version"] and len(package["sha256"]) == 64 for package in metadata["packages"])


def test_the_licence_note_says_what_is_in_the_shipped_file() -> None:
    """If this fails: python scripts/licence_note.py, and commit what it writes."""
    root = Path(__file__).parents[2]
    note = (root / "tasks" / "data" / "code_depth_embedded.md").read_text(encoding="utf-8")
    assert note == runpy.run_path(str(root / "scripts" / "licence_note.py"))["note"]()
    assert SHA256 in note


def test_every_split_has_a_thousand_different_windows(built: dict[str, Task]) -> None:
    task = built["code_depth_embedded"]
    for length, split in ((40, "evaluate"), (120, "evaluate"), (40, "probe_train"), (40, "probe_test")):
        batch = draw(task, split, 6_000, length, seed=0)
        assert len(np.unique(batch.tokens, axis=0)) > 1000


def test_other_data_than_declared_are_an_error() -> None:
    task = load_task("code_depth", {"source": "embedded", "sha256": "ab" * 32}, "depth")
    with pytest.raises(TaskError, match=f"have the SHA-256 {SHA256}") as caught:
        draw(task, "train", 1, 40, seed=0)
    assert caught.value.field == "sha256"


def test_a_length_that_no_function_has_is_an_error(built: dict[str, Task]) -> None:
    with pytest.raises(TaskError, match="no function holds a window of 5000 tokens"):
        draw(built["code_depth_embedded"], "train", 1, 5000, seed=0)


def test_a_split_without_windows_is_an_error() -> None:
    task = CodeDepth(lambda: functions_of(["def f(a): return a"]))
    window = task.sample(1, 5, np.random.default_rng(0))
    filled = SPLITS[split_of(window.tokens)[0]]
    assert np.array_equal(draw(task, filled, 1, 5, seed=0).tokens, window.tokens)
    for split in set(SPLITS) - {filled}:
        with pytest.raises(TaskError, match=f"split '{split}' holds no window of 5 tokens"):
            draw(task, split, 1, 5, seed=0)


@pytest.mark.parametrize("change", [{"max_depth": 1}, {"max_indent": 1}])
def test_clipping_changes_the_states_only(built: dict[str, Task], change: dict[str, int]) -> None:
    clipped = load_task("code_depth", {"source": "embedded", "sha256": SHA256, **change}, "depth")
    one, other = (draw(task, "train", 64, 40, seed=0) for task in (built["code_depth_embedded"], clipped))
    assert np.array_equal(one.tokens, other.tokens)
    assert digest(one) != digest(other)


@pytest.mark.parametrize(
    ("window", "position", "expected"),
    [
        ("NAME ( NAME , NAME ) NEWLINE NAME", 1, "NAME NAME NAME , NAME NAME NEWLINE NAME"),
        ("NAME ( NAME , NAME ) NEWLINE NAME", 2, "NAME ( ( , ) ) NEWLINE NAME"),
        ("NAME [ NAME ( NAME ) ] NEWLINE NAME", 4, "NAME [ NAME ( ( ) ) ] NAME"),
        ("NAME ( NAME ) . NAME NEWLINE NAME", 3, "NAME ( NAME NAME . ) NEWLINE NAME"),
        ("NAME ( NAME ) NEWLINE NAME = NAME", 3, "NAME ( NAME NAME ) NAME = NAME"),
        ("NAME = NAME NEWLINE NAME = NAME NEWLINE", 3, "NAME = NAME ( NAME = ) NEWLINE"),
        ("if NAME : NEWLINE INDENT NAME = NAME", 3, "if NAME : ( ) NAME = NAME"),
        ("NAME = NAME . NAME", 2, "NAME = ( . NAME"),
    ],
)
def test_the_corruption_rule_by_example(window: str, position: int, expected: str) -> None:
    assert corrupted_window(numbers(window), position, 10) == numbers(expected)


@pytest.mark.parametrize(
    ("window", "position", "expected"),
    [
        ("( ( ( NAME ) ) )", 3, "( NAME NAME NUMBER NAME NAME )"),
        ("( ( ( NAME ) ) )", 4, "( NAME NAME NAME NAME NAME )"),
        ("( ( ( [ NAME ] ) ) )", 3, "( NAME NAME NAME NAME NAME NAME NAME )"),
    ],
)
def test_where_one_bracket_is_not_seen_enclosing_ones_go(window: str, position: int, expected: str) -> None:
    assert corrupted_window(numbers(window), position, 2) == numbers(expected)


@st.composite
def valid_windows(choose: Callable[..., Any]) -> list[int]:
    tokens: list[int] = []
    stack: list[int] = []
    for kind in choose(st.lists(st.integers(0, 9), min_size=1, max_size=40)):
        if kind < 3:
            stack.append(2 * kind)
            tokens.append(2 * kind)
        elif kind < 6 and stack:
            tokens.append(CLOSE_OF[stack.pop()])
        elif kind == 6 and not stack:
            tokens.append(CLASS_NUMBER[choose(st.sampled_from(("NEWLINE", "INDENT", "DEDENT")))])
        else:
            tokens.append(CLASS_NUMBER[choose(st.sampled_from(("NAME", ".", "=")))])
    return tokens


@settings(deadline=None, max_examples=300)
@given(valid_windows(), st.integers(1, 12), st.data())
def test_every_window_can_be_corrupted_at_every_position(
    tokens: list[int], max_depth: int, data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, len(tokens) - 1))
    corrupted = corrupted_window(tokens, position, max_depth)
    before, after = depth_at(tokens, position), depth_at(corrupted, position)
    assert is_valid(corrupted)
    assert min(before, max_depth) != min(after, max_depth)
    assert corrupted[position] != tokens[position]
    if min(before, max_depth) < max_depth - 1:
        assert corrupted[:position] == tokens[:position]
        assert abs(after - before) == 1


def test_a_task_that_tracks_the_indent_has_no_corruption() -> None:
    task = load_task("code_depth", {"source": "embedded", "sha256": SHA256}, "indent")
    batch = draw(task, "train", 2, 40, seed=0)
    with pytest.raises(TaskError, match="depth only"):
        task.corrupt(batch, 3, np.random.default_rng(0))
