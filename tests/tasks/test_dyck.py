"""Dyck: how prefixes are drawn, and what a corruption changes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layerstate.tasks import Batch, Task, TaskError, load_task


def dyck(bracket_types: int, max_depth: int, target: str = "depth") -> Task:
    return load_task("dyck", {"bracket_types": bracket_types, "max_depth": max_depth}, target)


def stack_after(tokens: list[int], max_depth: int) -> list[int] | None:
    """Open brackets after `tokens`, or None if they are no valid prefix."""
    stack: list[int] = []
    for token in tokens:
        if token % 2 == 0 and len(stack) < max_depth:
            stack.append(token // 2)
        elif token % 2 == 1 and stack and stack[-1] == token // 2:
            stack.pop()
        else:
            return None
    return stack


def prefixes(bracket_types: int, max_depth: int, length: int) -> Iterator[list[int]]:
    if length == 0:
        yield []
        return
    for start in prefixes(bracket_types, max_depth, length - 1):
        for token in range(2 * bracket_types):
            if stack_after([*start, token], max_depth) is not None:
                yield [*start, token]


def as_batch(rows: list[list[int]]) -> Batch:
    return Batch(np.array(rows, dtype=np.int64), {})


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 9), st.integers(1, 12), st.integers(1, 60), st.integers(0, 2**32))
def test_every_sample_is_a_valid_prefix_with_its_depth_and_top(k: int, m: int, length: int, seed: int) -> None:
    batch = dyck(k, m).sample(5, length, np.random.default_rng(seed))
    for row, tokens in enumerate(batch.tokens.tolist()):
        for t in range(length):
            stack = stack_after(tokens[: t + 1], m)
            assert stack is not None
            assert batch.states["depth"][row, t] == len(stack)
            assert batch.states["top"][row, t] == (stack[-1] + 1 if stack else 0)


def test_open_or_close_is_even_and_forced_at_both_ends() -> None:
    batch = dyck(2, 4).sample(3000, 60, np.random.default_rng(0))
    depth = np.concatenate([np.zeros((3000, 1), int), batch.states["depth"][:, :-1]], axis=1)
    opens = batch.tokens % 2 == 0
    assert opens[depth == 0].all()
    assert not opens[depth == 4].any()
    for between in (1, 2, 3):
        assert opens[depth == between].mean() == pytest.approx(0.5, abs=0.01)
    assert (batch.tokens[opens] // 2).mean() == pytest.approx(0.5, abs=0.01)
    assert (batch.states["depth"][:, -1] > 0).any(), "a prefix need not end at depth 0"


def test_symbols_come_in_pairs() -> None:
    assert dyck(2, 10).vocabulary == ("(", ")", "[", "]")
    assert dyck(6, 10).vocabulary[8:] == ("(4", ")4", "(5", ")5")


@pytest.mark.parametrize("target", ["depth", "top"])
@pytest.mark.parametrize(("k", "m", "length"), [(2, 3, 7), (3, 4, 5), (2, 2, 7), (1, 4, 9), (2, 1, 6)])
def test_every_prefix_can_be_corrupted_wherever_states_differ(target: str, k: int, m: int, length: int) -> None:
    task, rng = dyck(k, m, target), np.random.default_rng(1)
    rows = list(prefixes(k, m, length))
    names = {"depth": len, "top": lambda stack: stack[-1] + 1 if stack else 0}
    for position in range(length):
        original = [names[target](stack_after(row[: position + 1], m)) for row in rows]
        if len(set(original)) == 1 or (target == "top" and k == 1):
            with pytest.raises(TaskError, match=r"every sequence has the same|one bracket type"):
                task.corrupt(as_batch(rows), position, rng)
            continue
        corrupted = task.corrupt(as_batch(rows), position, rng).tokens.tolist()
        for old, new, before in zip(rows, corrupted, original, strict=True):
            assert stack_after(new, m) is not None
            assert names[target](stack_after(new[: position + 1], m)) != before
            if target == "depth" and k > 1:
                assert new[position] != old[position]


def test_only_an_empty_or_full_stack_lets_earlier_tokens_change() -> None:
    m, position = 4, 8
    rows = list(prefixes(2, m, 11))[::7]
    corrupted = dyck(2, m).corrupt(as_batch(rows), position, np.random.default_rng(1)).tokens.tolist()
    forced = 0
    for old, new in zip(rows, corrupted, strict=True):
        depth = len(stack_after(old[:position], m) or [])
        changed = [t for t in range(position) if old[t] != new[t]]
        if 0 < depth < m:
            assert changed == []
        else:
            forced += 1
            assert changed[-1] == position - 1
            assert len(changed) <= 2
    assert forced


def test_later_tokens_change_only_where_the_stack_forbids_them() -> None:
    m, position = 4, 4
    rows = list(prefixes(2, m, 11))[::11]
    corrupted = dyck(2, m).corrupt(as_batch(rows), position, np.random.default_rng(1)).tokens.tolist()
    for old, new in zip(rows, corrupted, strict=True):
        for t in range(position + 1, len(old)):
            if new[t] != old[t]:
                assert stack_after([*new[:t], old[t]], m) is None
                kind_is_possible = any(
                    stack_after([*new[:t], token], m) is not None for token in range(4) if token % 2 == old[t] % 2
                )
                assert (new[t] % 2 == old[t] % 2) == kind_is_possible, "a bracket turns round only where it must"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"bracket_types": 0}, "bracket_types"),
        ({"bracket_types": 101}, "bracket_types"),
        ({"bracket_types": 2.0}, "bracket_types"),
        ({"bracket_types": True}, "bracket_types"),
        ({"bracket_types": "2"}, "bracket_types"),
        ({"bracket_types": None}, "bracket_types"),
        ({"max_depth": 0}, "max_depth"),
        ({"max_depth": 1001}, "max_depth"),
        ({"maxdepth": 3}, "maxdepth"),
    ],
)
def test_a_wrong_parameter_is_an_error_at_its_name(params: dict[str, object], field: str) -> None:
    with pytest.raises(TaskError) as caught:
        load_task("dyck", params, "depth")
    assert caught.value.field == field
