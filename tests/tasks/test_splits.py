"""Splits are a function of content, draws are deterministic, and a split that holds nothing says so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layerstate.tasks import SPLITS, Batch, TaskError, digest, draw, load_task, split_of

PARITY = load_task("parity", {}, "parity")


def mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) % 2**64
    return value ^ (value >> 31)


def split_in_plain_integers(tokens: list[int]) -> int:
    golden = 0x9E3779B97F4A7C15
    total = sum((token + 1) * (mix((t * golden) % 2**64) | 1) for t, token in enumerate(tokens, 1)) % 2**64
    bucket = mix(total ^ (len(tokens) * golden) % 2**64) >> 60
    return max(bucket - 11, 0)


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=130))
def test_the_split_is_the_published_hash_of_the_tokens(tokens: list[int]) -> None:
    assert split_of(np.array([tokens])).tolist() == [split_in_plain_integers(tokens)]


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_the_split_depends_on_values_and_not_on_their_type(dtype: type) -> None:
    tokens = np.random.default_rng(0).integers(0, 4, (500, 40))
    assert np.array_equal(split_of(tokens), split_of(tokens.astype(dtype)))


def test_twelve_of_sixteen_sequences_are_for_training() -> None:
    tokens = np.random.default_rng(0).integers(0, 2, (64_000, 40))
    shares = np.bincount(split_of(tokens), minlength=5) / len(tokens)
    assert shares == pytest.approx([12 / 16, 1 / 16, 1 / 16, 1 / 16, 1 / 16], abs=0.005)


def test_every_sequence_of_a_length_is_in_one_split_and_no_other() -> None:
    every = np.array([[int(bit) for bit in f"{number:010b}"] for number in range(1024)])
    split = split_of(every)
    for index, name in enumerate(SPLITS):
        drawn = draw(PARITY, name, 400, 10, seed=1).tokens
        allowed = {tuple(row) for row in every[split == index].tolist()}
        assert {tuple(row) for row in drawn.tolist()} <= allowed


def test_a_draw_is_decided_by_split_length_and_seed() -> None:
    first = digest(draw(PARITY, "train", 50, 40, seed=(1, 2)))
    assert digest(draw(PARITY, "train", 50, 40, seed=(1, 2))) == first
    others = [
        draw(PARITY, "train", 50, 40, seed=(1, 3)),
        draw(PARITY, "train", 50, 40, seed=(2, 2)),
        draw(PARITY, "train", 50, 40, seed=(1, 2, 0)),
        draw(PARITY, "train", 50, 40, seed=1),
        draw(PARITY, "train", 50, 41, seed=(1, 2)),
        draw(PARITY, "validation", 50, 40, seed=(1, 2)),
    ]
    assert len({first, *map(digest, others)}) == 7


def test_a_seed_is_whole_numbers_from_zero_on() -> None:
    for seed in (-1, (), (3, -2), 2**64):
        with pytest.raises(TaskError, match="a seed is"):
            draw(PARITY, "train", 1, 8, seed=seed)
    assert len(draw(PARITY, "train", 1, 8, seed=np.int64(3))) == 1
    assert len(draw(PARITY, "train", 1, 8, seed=2**64 - 1)) == 1


def test_an_empty_split_is_an_error_and_not_an_endless_loop() -> None:
    pairs = split_of(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]))
    empty = [name for index, name in enumerate(SPLITS) if index not in pairs]
    assert empty, "four sequences cannot fill five splits"
    for name in empty:
        with pytest.raises(TaskError, match=f"split '{name}' holds no sequence of length 2"):
            draw(PARITY, name, 4, 2, seed=0)


def test_a_split_that_hardly_ever_turns_up_is_an_error() -> None:
    constant = np.repeat(np.arange(100)[:, None], 5, axis=1)
    rare = int(np.flatnonzero(split_of(constant) == SPLITS.index("evaluate"))[0])
    usual = int(np.flatnonzero(split_of(constant) == SPLITS.index("train"))[0])

    class NearlyConstant:
        """One sequence always, except for another, of another split, one in a thousand times."""

        def sample(self, n: int, length: int, rng: np.random.Generator) -> Batch:
            return Batch(constant[np.where(rng.random(n) < 0.001, rare, usual)], {})

    with pytest.raises(TaskError, match="hardly any"):
        draw(NearlyConstant(), "evaluate", 2000, 5, seed=0)  # type: ignore[arg-type]


def test_an_unknown_split_is_an_error() -> None:
    with pytest.raises(TaskError, match="no split 'test'; the splits are train, validation"):
        draw(PARITY, "test", 1, 8, seed=0)


def test_the_digest_sees_tokens_states_names_shapes_and_types() -> None:
    tokens = np.arange(6).reshape(2, 3)
    base = Batch(tokens, {"a": tokens, "b": tokens + 1})
    same = Batch(tokens.copy(), {"b": tokens + 1, "a": tokens})
    others = [
        Batch(tokens + 1, base.states),
        Batch(tokens, {"a": tokens, "b": tokens}),
        Batch(tokens, {"a": tokens, "c": tokens + 1}),
        Batch(tokens, {"a": tokens}),
        Batch(tokens.reshape(3, 2), base.states),
        Batch(tokens.astype(np.int32), base.states),  # type: ignore[arg-type]
    ]
    assert digest(same) == digest(base)
    assert digest(base) not in {digest(other) for other in others}
