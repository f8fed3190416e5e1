"""Groups: axioms, numbering, the sign, and what is not a group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layerstate.tasks import TaskError, load_task
from layerstate.tasks.permutations import compose, generated, multiplication_table, named_group, sign
from ruamel.yaml import YAML

SMALL = ("z2", "z3", "z12", "s2", "s3", "s4", "a3", "a4", "a5", "s5")
S3 = YAML(typ="safe").load((Path(__file__).parents[2] / "specs/tasks/s3.yaml").read_text())["params"]["elements"]


@pytest.mark.parametrize(("name", "order"), [("z60", 60), ("s5", 120), ("a5", 60), ("s3", 6), ("a3", 3), ("z2", 2)])
def test_a_named_group_has_its_order_and_the_identity_first(name: str, order: int) -> None:
    elements = named_group(name)
    assert len(elements) == order == len(set(elements))
    assert elements[0] == tuple(range(len(elements[0])))


@given(st.sampled_from(SMALL), st.data())
def test_a_table_is_a_group(name: str, data: st.DataObject) -> None:
    elements = named_group(name)
    table = multiplication_table(elements)
    a, b, c = (data.draw(st.integers(0, len(elements) - 1)) for _ in range(3))
    assert table[table[a, b], c] == table[a, table[b, c]]
    assert table[0, a] == table[a, 0] == a
    assert 0 in table[a]
    assert elements[table[a, b]] == compose(elements[a], elements[b])


@given(st.permutations(range(6)), st.permutations(range(6)))
def test_the_sign_is_a_homomorphism(a: list[int], b: list[int]) -> None:
    assert sign(compose(tuple(a), tuple(b))) == (sign(tuple(a)) + sign(tuple(b))) % 2


def test_permutations_act_on_the_left() -> None:
    swap, turn = (1, 0, 2), (1, 2, 0)
    assert compose(swap, turn) == (0, 2, 1), "first turn, then swap"
    task = load_task("groups", {"elements": S3}, "product")
    first, then = S3.index(list(turn)), S3.index(list(swap))
    corrupted = task.corrupt(task.sample(1, 2, np.random.default_rng(0)), 0, np.random.default_rng(0))
    corrupted.tokens[:] = [first, then]
    relabelled = task.label(corrupted.tokens)  # type: ignore[attr-defined]
    assert relabelled.states["product"].tolist() == [[first, S3.index([0, 2, 1])]]


def test_s3_is_numbered_as_its_yaml_says() -> None:
    assert S3[0] == [0, 1, 2]
    assert sorted(map(tuple, S3)) == named_group("s3")
    renumbered = [S3[i] for i in (0, 3, 4, 5, 1, 2)]
    one, other = (load_task("groups", {"elements": e}, "product") for e in (S3, renumbered))
    draws = [task.sample(50, 9, np.random.default_rng(1)) for task in (one, other)]
    assert np.array_equal(draws[0].tokens, draws[1].tokens)
    assert not np.array_equal(draws[0].states["product"], draws[1].states["product"])


@settings(deadline=None)
@given(st.lists(st.permutations(range(4)), min_size=1, max_size=3))
def test_generators_give_the_smallest_group_that_holds_them(generators: list[list[int]]) -> None:
    rows = [tuple(g) for g in generators]
    if all(row == (0, 1, 2, 3) for row in rows):
        with pytest.raises(TaskError, match="identity only"):
            generated(rows)
        return
    elements = generated(rows)
    assert elements == sorted(elements)
    assert set(rows) <= set(elements)
    assert 24 % len(elements) == 0, "the order of a subgroup divides that of the group"
    multiplication_table(elements)


def test_generators_of_the_quaternions() -> None:
    i, j = [1, 2, 3, 0, 5, 6, 7, 4], [4, 7, 6, 5, 2, 1, 0, 3]
    task = load_task("groups", {"generators": [i, j]}, "product")
    assert task.classes == {"product": 8}


def test_how_often_the_identity_comes() -> None:
    rng = np.random.default_rng(0)
    task = load_task("groups", {"group": "s3", "identity_probability": 0.7}, "product")
    shares = np.bincount(task.sample(400, 100, rng).tokens.ravel(), minlength=6) / 40_000
    assert shares == pytest.approx([0.7, 0.06, 0.06, 0.06, 0.06, 0.06], abs=0.01)
    even = np.bincount(load_task("groups", {"group": "s3"}, "product").sample(400, 100, rng).tokens.ravel()) / 40_000
    assert even == pytest.approx([1 / 6] * 6, abs=0.01)


def test_a_task_that_tracks_the_sign_is_corrupted_in_sign() -> None:
    rng = np.random.default_rng(0)
    task = load_task("groups", {"group": "s4", "sign": True}, "sign")
    batch = task.sample(200, 10, rng)
    corrupted = task.corrupt(batch, 4, rng)
    assert (corrupted.states["sign"][:, 4:] != batch.states["sign"][:, 4:]).all()
    assert (corrupted.tokens != batch.tokens).sum() == 200


@pytest.mark.parametrize(
    ("params", "field", "message"),
    [
        ({}, "group", "exactly one of group, generators and elements, not none"),
        ({"group": "s3", "elements": S3}, "elements", "not group and elements"),
        ({"group": "q8"}, "group", "no group is called 'q8'"),
        ({"group": "s1"}, "group", "must have 2 to 5040"),
        ({"group": "s8"}, "group", "must have 2 to 5040"),
        ({"group": "z1001"}, "group", "must have 2 to 1000"),
        ({"group": "z999999999"}, "group", "no group is called"),
        ({"group": 3}, "group", "the whole number 3, must be a text"),
        ({"group": "z6", "sign": True}, "sign", "cyclic group has no state 'sign'"),
        ({"group": "a4", "sign": True}, "sign", "every element is even"),
        ({"group": "s3", "sign": 1}, "sign", "the whole number 1, must be true or false"),
        ({"group": "s3", "identity_probability": 1.0}, "identity_probability", "between 0 and 1"),
        ({"elements": S3[:5]}, "elements", "not an element: not a group"),
        ({"elements": S3[1:]}, "elements", "must be the identity"),
        ({"elements": [*S3, S3[2]]}, "elements", "elements 2 and 6 are both"),
        ({"elements": [[0, 1, 2]]}, "elements", "it must have 2 to"),
        ({"elements": [[0, 1, 2], [1, 0]]}, "elements", "moves 2 points, entry 0 moves 3"),
        ({"elements": [[0, 1], [1, 1]]}, "elements", "must hold each of 0 … n-1 once"),
        ({"elements": [[0, 1], [True, 0]]}, "elements", "must hold each of 0 … n-1 once"),
        ({"elements": []}, "elements", "must be a list of permutations"),
        ({"generators": "s3"}, "generators", "must be a list of permutations"),
        ({"generators": [[1, 2, 3, 4, 5, 6, 7, 0], [1, 0, 2, 3, 4, 5, 6, 7]]}, "generators", "more than 5040"),
    ],
)
def test_what_is_not_a_group_is_said_at_its_field(params: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(TaskError, match=message) as caught:
        load_task("groups", params, "product")
    assert caught.value.field == field
