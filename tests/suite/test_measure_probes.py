"""The built-in solver finds what scikit-learn finds, and probes behave where there is little to fit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from layerstate.adapters import build_adapter
from layerstate.suite.measure.probes import Probe, ProbeSettings, fit_probe, permute_labels, sample_positions
from layerstate.suite.measure.subspaces import span
from layerstate.tasks import draw, load_task
from torch.nn import functional

LENGTH = 16
Case = tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def dyck_activations(architecture: dict[str, object], steps: int) -> dict[str, tuple[np.ndarray, ...]]:
    """By site: activations and depths to fit on (3,000 positions), and to score on (16,000)."""
    task = load_task("dyck", {"bracket_types": 2, "max_depth": 6}, "depth")
    adapter = build_adapter("reference", {"architecture": architecture}, vocab_size=4, classes=7, seed=0)
    optimizer = torch.optim.AdamW(adapter.module.parameters(), 3e-3)
    for step in range(steps):
        batch = draw(task, "train", 64, LENGTH, seed=(0, step))
        logits = adapter.module(torch.as_tensor(batch.tokens))
        loss = functional.cross_entropy(logits.flatten(0, 1), torch.as_tensor(batch.states["depth"]).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    fit, score = (draw(task, split, n, LENGTH, seed=0) for split, n in (("probe_train", 400), ("probe_test", 1000)))
    chosen = sample_positions(400, LENGTH, 3000, np.random.default_rng(0))
    train, test = (adapter.capture(batch.tokens) for batch in (fit, score))
    y_train, y_test = fit.states["depth"].reshape(-1)[chosen], score.states["depth"].reshape(-1)
    return {
        site: (h.reshape(-1, h.shape[-1])[chosen], y_train, test[site].reshape(-1, h.shape[-1]), y_test)
        for site, h in train.items()
    }


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return list(_cases())


def _cases() -> Iterator[Case]:
    transformer = {"type": "transformer", "blocks": 2, "width": 32, "heads": 2}
    for site, arrays in dyck_activations(transformer, steps=0).items():
        yield f"random transformer, {site}", *arrays
    for site, arrays in dyck_activations({"type": "gru", "blocks": 2, "width": 24, "hidden": 24}, steps=40).items():
        yield f"trained GRU, {site}", *arrays


def accuracy(probe: Probe, h: np.ndarray, y: np.ndarray) -> float:
    return float((probe.predict(h) == y).mean())


def test_held_out_accuracy_is_that_of_scikit_learn(cases: list[Case]) -> None:
    for name, h, y, h_test, y_test in cases:
        ours = fit_probe(h, y, ProbeSettings())
        reference = fit_probe(h, y, ProbeSettings(solver="sklearn", tolerance=1e-5, max_iterations=3000))
        assert ours.converged, name
        assert abs(accuracy(ours, h_test, y_test) - accuracy(reference, h_test, y_test)) <= 0.002, name


def test_permuted_labels_are_fitted_as_scikit_learn_fits_them(cases: list[Case]) -> None:
    name, h, y, h_test, y_test = cases[-1]
    permuted = np.random.default_rng(0).permutation(y)
    ours, reference = (
        fit_probe(h, permuted, settings)
        for settings in (ProbeSettings(), ProbeSettings(solver="sklearn", max_iterations=3000))
    )
    assert ours.converged, name
    assert abs(accuracy(ours, h_test, y_test) - accuracy(reference, h_test, y_test)) <= 0.002, name


def test_the_direction_has_settled_at_the_default_tolerance(cases: list[Case]) -> None:
    """At scikit-learn's default tolerance of 1e-4 two solvers of one problem can be 70 degrees apart."""
    for name, h, y, *_ in cases:
        found, finer = (span(fit_probe(h, y, ProbeSettings(tolerance=t)).directions) for t in (1e-5, 1e-7))
        assert len(found) == len(finer), name
        assert np.linalg.svd(found @ finer.T)[1].min() > 0.95, name


def test_a_fit_that_stops_early_says_so(cases: list[Case]) -> None:
    _, h, y, *_ = cases[-1]
    for solver in ("newton", "sklearn"):
        assert not fit_probe(h, y, ProbeSettings(solver=solver, max_iterations=1)).converged


def two_blobs(rng: np.random.Generator, n: int = 600, width: int = 8) -> tuple[np.ndarray, np.ndarray]:
    y = rng.integers(2, size=n)
    h = rng.standard_normal((n, width))
    h[:, 0] += 4.0 * y
    return h.astype(np.float32), y


def test_one_scale_a_site_keeps_the_geometry_and_a_scale_a_feature_bends_it() -> None:
    rng = np.random.default_rng(0)
    h, y = two_blobs(rng)
    site, feature = (fit_probe(h, y, ProbeSettings(scale=scale)) for scale in ("site", "per_feature"))
    assert len(np.unique(site.scale)) == 1
    np.testing.assert_allclose(feature.scale, h.std(axis=0), rtol=1e-4)
    for probe in (site, feature):
        direction = span(probe.directions)[0]
        assert len(span(probe.directions)) == 1
        assert accuracy(probe, h, y) > 0.95
        assert abs(direction[0]) > 0.9


def test_activations_shifted_and_rescaled_give_the_same_predictions() -> None:
    rng = np.random.default_rng(1)
    h, y = two_blobs(rng)
    plain = fit_probe(h, y, ProbeSettings()).predict(h)
    moved = (h * 1000 + 7).astype(np.float32)
    assert np.mean(fit_probe(moved, y, ProbeSettings()).predict(moved) == plain) > 0.999


def test_classes_that_are_missing_are_never_predicted() -> None:
    rng = np.random.default_rng(2)
    h, y = two_blobs(rng)
    probe = fit_probe(h, np.where(y == 1, 9, 4), ProbeSettings())
    assert probe.labels.tolist() == [4, 9]
    assert set(probe.predict(h).tolist()) == {4, 9}
    assert probe.weights.shape == (2, h.shape[1])


def test_one_class_is_nothing_to_fit() -> None:
    with pytest.raises(ValueError, match="needs two classes"):
        fit_probe(np.zeros((5, 3), np.float32), np.ones(5, np.int64), ProbeSettings())


def test_constant_activations_give_the_majority_and_no_direction() -> None:
    y = np.array([0, 1, 1, 1] * 20)
    probe = fit_probe(np.full((80, 3), 2.5, np.float32), y, ProbeSettings())
    assert set(probe.predict(np.full((4, 3), 2.5, np.float32)).tolist()) == {1}
    assert len(span(probe.directions)) == 0


def test_rounding_is_not_scaled_up_to_a_signal() -> None:
    """A feature that was constant but for float32 rounding, divided by its deviation, took over the direction."""
    rng = np.random.default_rng(3)
    y = rng.integers(2, size=2000)
    h = rng.standard_normal((2000, 6)).astype(np.float32)
    h[:, 0] = 3.0 + np.where(y == 1, 2.4e-7, 0.0)
    assert len(np.unique(h[:, 0])) == 2
    direction = span(fit_probe(h, y, ProbeSettings(scale="per_feature")).directions)[0]
    assert abs(direction[0]) < 0.01


def test_weights_lie_where_the_activations_vary() -> None:
    """Seven classes on the embeddings of four tokens: rounding made a rank of six out of three."""
    rng = np.random.default_rng(4)
    tokens = rng.integers(4, size=3000)
    h = rng.standard_normal((4, 24)).astype(np.float32)[tokens]
    y = (tokens + rng.integers(4, size=3000)).astype(np.int64)
    assert len(span(fit_probe(h, y, ProbeSettings()).directions)) == 3


def test_positions_are_drawn_at_random_without_replacement_from_min_position_on() -> None:
    chosen = sample_positions(50, 20, 300, np.random.default_rng(0), min_position=4)
    assert len(np.unique(chosen)) == 300
    assert (chosen % 20).min() == 4
    assert np.all(np.diff(chosen) > 0)
    per_position = np.bincount(chosen % 20, minlength=20)[4:]
    assert per_position.min() > 8


def test_positions_do_not_skip_every_other_one() -> None:
    """A stride of 2 sees the odd depths of Dyck only."""
    chosen = sample_positions(500, 40, 10_000, np.random.default_rng(0))
    assert np.mean(chosen % 40 % 2) == pytest.approx(0.5, abs=0.03)


def test_few_positions_are_all_taken() -> None:
    assert sample_positions(3, 4, 100, np.random.default_rng(0), min_position=1).tolist() == [
        1,
        2,
        3,
        5,
        6,
        7,
        9,
        10,
        11,
    ]


def test_permuted_labels_keep_every_position_and_lose_every_sequence() -> None:
    y = np.arange(40)[:, None] * np.ones((1, 6), np.int64)
    permuted = permute_labels(y, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(permuted, axis=0), y)
    assert np.mean(permuted[:, 0] == permuted[:, 1]) < 0.3
