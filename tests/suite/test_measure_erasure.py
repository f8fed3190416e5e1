"""Erasers erase what they should, all of it, and as little else as they can."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layerstate.suite.measure.erasure import (
    Projection,
    extend,
    inlp,
    leace,
    one_hot,
    varying_directions,
)
from layerstate.suite.measure.probes import ProbeSettings, fit_probe
from layerstate.suite.measure.subspaces import projector, random_basis, span

seeds = st.integers(0, 2**32 - 1)
SETTINGS = ProbeSettings()


def labelled(seed: int, classes: int, width: int = 10, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Activations whose class means differ in every direction."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), rng.integers(classes, size=n - classes)])
    h = rng.standard_normal((n, width)) @ rng.standard_normal((width, width)) + rng.standard_normal((classes, width))[y]
    return h.astype(np.float32), y


@given(seed=seeds, held=st.integers(0, 5), vectors=st.integers(1, 8), most=st.integers(5, 14))
@settings(max_examples=50, deadline=None)
def test_an_extended_basis_is_orthonormal_and_its_projector_idempotent(
    seed: int, held: int, vectors: int, most: int
) -> None:
    rng = np.random.default_rng(seed)
    basis, new = random_basis(held, 16, rng), rng.standard_normal((vectors, 16))
    extended = extend(basis, new, most)
    assert len(extended) == min(held + vectors, most)
    np.testing.assert_array_equal(extended[:held], basis)
    np.testing.assert_allclose(extended @ extended.T, np.eye(len(extended)), atol=1e-12)
    p = projector(extended)
    np.testing.assert_allclose(p @ p, p, atol=1e-12)
    if held + vectors <= most:
        np.testing.assert_allclose(new @ p, new, atol=1e-10)


def test_vectors_inside_the_basis_add_nothing() -> None:
    rng = np.random.default_rng(0)
    basis = random_basis(3, 8, rng)
    assert len(extend(basis, rng.standard_normal((5, 3)) @ basis, 8)) == 3
    assert len(extend(basis, np.zeros((2, 8)), 8)) == 3


def test_of_more_vectors_than_there_is_room_for_the_strongest_are_taken() -> None:
    axes = np.eye(5)
    extended = extend(axes[:1], np.stack([axes[1], 3 * axes[2], 2 * axes[3]]), 3)
    np.testing.assert_allclose(projector(extended), np.diag([1.0, 0, 1, 1, 0]), atol=1e-12)


@given(seed=seeds, classes=st.integers(2, 5), fill=st.sampled_from(["mean", "zero"]))
@settings(max_examples=15, deadline=None)
def test_inlp_grows_by_what_a_probe_has_until_nothing_is_left(seed: int, classes: int, fill: str) -> None:
    h, y = labelled(seed, classes)
    fill_D = h.mean(axis=0, dtype=np.float64) * (fill == "mean")
    steps = list(inlp(h, y, SETTINGS, fill_D, max_rank=64))
    ranks = [step.erase.rank for step in steps]
    assert ranks == [*range(0, 10, classes - 1), 10]
    for before, after in itertools.pairwise(steps):
        basis = after.erase.basis
        np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-10)
        np.testing.assert_array_equal(basis[: before.erase.rank], before.erase.basis)
        if after.erase.rank < 10:
            directions = before.probe.directions
            np.testing.assert_allclose(directions @ projector(basis), directions, atol=1e-4)
    gone = steps[-1].erase(h)
    np.testing.assert_allclose(gone, np.broadcast_to(fill_D, h.shape), atol=1e-5)
    assert np.ptp(gone, axis=0).max() == 0.0
    assert set(steps[-1].probe.predict(gone)) == {np.bincount(y).argmax()}


def test_inlp_stops_at_the_largest_rank() -> None:
    h, y = labelled(0, 4)
    ranks = [step.erase.rank for step in inlp(h, y, SETTINGS, np.zeros(10), max_rank=5)]
    assert ranks == [0, 3, 5]


def test_inlp_starts_from_a_probe_that_is_there_and_refits_on_what_is_left() -> None:
    h, y = labelled(1, 3)
    clean = fit_probe(h, y, SETTINGS)
    first, second, *_ = inlp(h, y, SETTINGS, np.zeros(10), max_rank=4, first=clean)
    assert first.probe is clean
    np.testing.assert_allclose(projector(second.erase.basis), projector(span(clean.directions)), atol=1e-8)
    np.testing.assert_allclose(second.probe.weights, fit_probe(second.erase(h), y, SETTINGS).weights)


@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_inlp_ends_where_nothing_varies_any_more(offset: float) -> None:
    """Activations of width 10 in a plane: the rounding that is left beside it holds the state, and is no direction."""
    rng = np.random.default_rng(2)
    y = rng.integers(2, size=500)
    plane = np.stack([2.0 * y - 1 + rng.uniform(-2, 2, 500), 2.0 * y - 1 + rng.uniform(-4, 4, 500)], axis=1)
    h = (plane @ random_basis(2, 10, rng) + offset).astype(np.float32)
    assert len(varying_directions(h)) == 2
    steps = list(inlp(h, y, SETTINGS, np.zeros(10), max_rank=64))
    assert [step.erase.rank for step in steps] == [0, 1, 2]
    left = steps[-1].erase(h)
    assert np.ptp(left, axis=0).max() == 0.0
    np.testing.assert_allclose(steps[-1].erase.basis @ left[0], 0.0, atol=1e-5)


def test_a_projection_of_nothing_changes_nothing() -> None:
    h, _ = labelled(0, 2)
    assert Projection(np.zeros((0, 10)), np.ones(10))(h) is h


def cross_covariance(h: np.ndarray, z: np.ndarray) -> np.ndarray:
    return (h - h.mean(axis=0, dtype=np.float64)).T @ (z - z.mean(axis=0)) / len(h)


@given(seed=seeds, classes=st.integers(2, 6))
@settings(max_examples=20, deadline=None)
def test_leace_leaves_no_cross_covariance_and_a_fresh_probe_at_the_majority(seed: int, classes: int) -> None:
    h, y = labelled(seed, classes)
    erase = leace(h, one_hot(y))
    erased = erase(h)
    assert erase.rank == classes - 1
    assert erased.dtype == np.float32
    assert np.abs(cross_covariance(h, one_hot(y))).max() > 1e-2
    assert np.abs(cross_covariance(erased, one_hot(y))).max() < 1e-5
    np.testing.assert_allclose(erased.mean(axis=0), h.mean(axis=0), atol=1e-4)
    assert set(fit_probe(erased, y, SETTINGS).predict(erased)) == {np.bincount(y).argmax()}


def test_leace_changes_least_in_the_metric_of_the_activations() -> None:
    """Erasing along a direction that varies with the state's takes the correlated part along: no projection does."""
    h, y = labelled(3, 2)
    erase = leace(h, one_hot(y))
    p = erase.left @ erase.right
    np.testing.assert_allclose(p @ p, p, atol=1e-9)
    covariance = np.cov(h.T.astype(np.float64))
    np.testing.assert_allclose(p @ covariance, (p @ covariance).T, atol=1e-6)


def test_integer_labels_under_erase_and_one_hot_labels_do_not() -> None:
    """Three classes at 0, 1, 0.2 along one direction and 0, 0, 1 along another: not linear in the class's number."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=3000)
    h = (np.array([[0, 0, 0], [1, 0, 0], [0.2, 1, 0]])[y] * 4 + rng.standard_normal((3000, 3))).astype(np.float32)
    by_number, by_class = leace(h, y[:, None].astype(np.float64)), leace(h, one_hot(y))
    assert (by_number.rank, by_class.rank) == (1, 2)
    kept, gone = ((fit_probe(e(h), y, SETTINGS).predict(e(h)) == y).mean() for e in (by_number, by_class))
    assert kept > 0.6
    assert gone == pytest.approx(np.bincount(y).max() / 3000)


def test_leace_does_not_whiten_what_varies_by_rounding_alone() -> None:
    h, y = labelled(4, 2, width=6)
    flat = np.concatenate([h, 5 + 1e-7 * (2.0 * y - 1)[:, None], np.ones((400, 1))], axis=1).astype(np.float32)
    erase = leace(flat, one_hot(y))
    assert np.abs(erase.right).max() < 1e3
    assert np.isfinite(erase(flat)).all()
    assert len(varying_directions(flat)) == 6
    constant = np.ones((400, 4), np.float32)
    assert leace(constant, one_hot(y)).rank == 0
    np.testing.assert_array_equal(leace(constant, one_hot(y))(constant), constant)


def test_classes_that_do_not_occur_have_no_column() -> None:
    np.testing.assert_array_equal(one_hot(np.array([5, 2, 5])), [[0, 1], [1, 0], [0, 1]])
