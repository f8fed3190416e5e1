"""Principal and class-mean directions find what was put in, in order of size, and nothing where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layerstate.suite.measure.principal import class_mean_singular_directions, principal_directions, variance_share
from layerstate.suite.measure.subspaces import random_basis

WIDTH = 6


def along(sizes: list[float], seed: int = 0, n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Independent normal numbers of these deviations along orthonormal directions, far from the origin; both."""
    rng = np.random.default_rng(seed)
    basis = random_basis(len(sizes), WIDTH, rng)
    h = (rng.standard_normal((n, len(sizes))) * sizes) @ basis + 50.0
    return h.astype(np.float32), basis


def test_principal_directions_come_in_order_of_variance() -> None:
    h, basis = along([3.0, 0.3, 1.0])
    found = principal_directions(h)
    assert found.shape == (3, WIDTH)
    np.testing.assert_allclose(np.abs(found @ basis[[0, 2, 1]].T), np.eye(3), atol=0.05)


def test_the_variance_along_principal_directions_is_what_was_put_there() -> None:
    h, _ = along([3.0, 0.3, 1.0])
    total = 9.0 + 1.0 + 0.09
    found = principal_directions(h)
    shares = [variance_share(h, found[:k]) for k in (0, 1, 2, 3)]
    np.testing.assert_allclose(shares, [0.0, 9.0 / total, 10.0 / total, 1.0], atol=0.01)
    assert shares[3] == pytest.approx(1.0, abs=1e-6)


@given(st.integers(0, 10_000), st.integers(1, WIDTH - 1))
def test_no_subspace_of_k_directions_holds_more_variance(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    h = (rng.standard_normal((60, WIDTH)) @ rng.standard_normal((WIDTH, WIDTH))).astype(np.float32)
    found = principal_directions(h)
    np.testing.assert_allclose(found @ found.T, np.eye(WIDTH), atol=1e-9)
    assert variance_share(h, found[:k]) >= variance_share(h, random_basis(k, WIDTH, rng)) - 1e-6


def test_rounding_is_no_direction() -> None:
    h, _ = along([3.0, 1.0, 3e-6])
    assert len(principal_directions(h.astype(np.float64) - 50.0)) == 2


def means_at(points: np.ndarray, counts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Samples whose class means are exactly these points: pairs on both sides of them."""
    y = np.repeat(np.arange(len(points)), counts)
    sides = np.where(np.arange(len(y)) % 2, 1.0, -1.0)[:, None] * np.array([0.0, 0.0, 0.0, 0.0, 0.0, 9.0])
    return (points[y] + sides).astype(np.float32), y


def test_class_mean_directions_come_in_order_of_what_tells_the_classes_apart() -> None:
    points = np.zeros((4, WIDTH))
    points[0, 2], points[1, 2] = -4.0, 4.0
    points[2, 0], points[3, 0] = -1.0, 1.0
    h, y = means_at(points, [10, 20, 30, 40])
    found = class_mean_singular_directions(h, y)
    np.testing.assert_allclose(np.abs(found), np.eye(WIDTH)[[2, 0]], atol=1e-6)


def test_how_often_a_class_occurs_does_not_matter() -> None:
    points = np.random.default_rng(1).standard_normal((4, WIDTH))
    even, uneven = (
        class_mean_singular_directions(*means_at(points, counts)) for counts in ([10, 10, 10, 10], [200, 2, 10, 4])
    )
    assert even.shape == (3, WIDTH)
    np.testing.assert_allclose(np.abs((even * uneven).sum(axis=1)), 1.0, atol=1e-5)


def test_activations_that_do_not_vary_have_no_direction() -> None:
    h = np.full((100, WIDTH), 0.1, np.float32)
    assert principal_directions(h).shape == (0, WIDTH)
    assert class_mean_singular_directions(h, np.arange(100) % 3).shape == (0, WIDTH)
    assert np.isnan(variance_share(h, np.eye(WIDTH)[:1]))
