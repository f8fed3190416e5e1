"""Bases are orthonormal, projectors are projectors, and an ablation leaves what is outside the subspace alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layerstate.suite.measure.subspaces import (
    ablate,
    ablation_edit,
    class_mean_directions,
    projector,
    random_basis,
    span,
)

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, rank=st.integers(1, 12), width=st.integers(12, 40))
@settings(max_examples=40, deadline=None)
def test_projectors_are_idempotent_and_symmetric(seed: int, rank: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    for basis in (random_basis(rank, width, rng), span(rng.standard_normal((rank, width)))):
        assert basis.shape == (rank, width)
        np.testing.assert_allclose(basis @ basis.T, np.eye(rank), atol=1e-12)
        p = projector(basis)
        np.testing.assert_allclose(p @ p, p, atol=1e-12)
        np.testing.assert_allclose(p, p.T, atol=1e-12)
        assert np.trace(p) == pytest.approx(rank)


@given(seed=seeds, classes=st.integers(2, 8))
@settings(max_examples=30, deadline=None)
def test_classes_give_one_direction_less(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), rng.integers(classes, size=200)])
    h = rng.standard_normal((len(y), 20)).astype(np.float32)
    assert len(span(class_mean_directions(h, y))) == classes - 1


def test_a_class_that_is_missing_gives_no_direction() -> None:
    rng = np.random.default_rng(0)
    y = rng.choice([0, 2, 5], size=300)
    h = rng.standard_normal((300, 8)).astype(np.float32)
    assert len(span(class_mean_directions(h, y))) == 2


def test_singular_values_under_a_hundred_thousandth_of_the_largest_are_dropped() -> None:
    axes = np.eye(4)
    assert len(span(np.stack([axes[0], 1.1e-5 * axes[1]]))) == 2
    assert len(span(np.stack([axes[0], 0.9e-5 * axes[1]]))) == 1
    assert len(span(np.zeros((3, 4)))) == 0


@given(seed=seeds, rank=st.integers(1, 10))
@settings(max_examples=30, deadline=None)
def test_ablation_fixes_the_inside_and_leaves_the_outside(seed: int, rank: int) -> None:
    rng = np.random.default_rng(seed)
    h = rng.standard_normal((3, 5, 12)).astype(np.float32)
    basis, fill = random_basis(rank, 12, rng), rng.standard_normal(12)
    ablated = ablate(h, basis, fill)
    np.testing.assert_allclose(ablated @ basis.T, np.broadcast_to(basis @ fill, (3, 5, rank)), atol=1e-5)
    outside = np.eye(12) - projector(basis)
    np.testing.assert_allclose(ablated @ outside, h @ outside, atol=1e-5)
    np.testing.assert_allclose(ablate(ablated, basis, fill), ablated, atol=1e-5)


def test_the_edit_of_a_running_model_is_the_same_ablation() -> None:
    rng = np.random.default_rng(0)
    h = rng.standard_normal((2, 5, 12)).astype(np.float32)
    basis, fill = random_basis(3, 12, rng), rng.standard_normal(12)
    edit = ablation_edit(basis, fill)
    np.testing.assert_allclose(edit(torch.as_tensor(h)).numpy(), ablate(h, basis, fill), atol=1e-6)
    halved = edit(torch.as_tensor(h).bfloat16())
    assert halved.dtype == torch.bfloat16
    np.testing.assert_allclose(halved.float().numpy(), ablate(h, basis, fill), atol=0.05)


def test_random_subspaces_come_from_the_generator_alone() -> None:
    first, again, other = (random_basis(3, 9, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
