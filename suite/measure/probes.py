"""Linear probes: multinomial logistic regression from activations to a state variable.

Shape suffixes: N samples, D width, C classes, B sequences, L length.
"""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .softmax import fit_softmax

__all__ = ["Probe", "ProbeSettings", "fit_probe", "permute_labels", "sample_positions"]

Float = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int = NDArray[np.int64]
Scale = Literal["site", "per_feature"]

_ROUNDING_VARIANCE = 1e-12
"""The variance of float32 rounding, as a share of the largest variance of a direction."""


@dataclass(frozen=True)
class ProbeSettings:
    """How probes are fitted.

    Attributes
    ----------
    scale : {"site", "per_feature"}
        Divide by one number a site (the mean of the features' standard deviations), or each feature by its own.
    solver : {"newton", "sklearn"}
        This package's solver, or scikit-learn's ``LogisticRegression(solver="lbfgs")``, the reference.
    strength : float
        Inverse of the L2 penalty, scikit-learn's C.
    tolerance : float
        Converged when no entry of the gradient of the mean objective is larger.
    max_iterations : int
        Most steps of the solver.
    """

    scale: Scale = "site"
    solver: Literal["newton", "sklearn"] = "newton"
    strength: float = 1.0
    tolerance: float = 1e-5
    max_iterations: int = 100


@dataclass(frozen=True)
class Probe:
    """A fitted probe.

    Attributes
    ----------
    labels : int64 array (C,)
        The classes seen in fitting, ascending; it predicts no other.
    weights : float64 array (C, D)
        One row a class, in scaled coordinates.
    intercept : float64 array (C,)
    mean : float64 array (D,)
        Taken from the activations.
    scale : float64 array (D,)
        What the centred activations are divided by.
    converged : bool
        Whether the solver reached its tolerance.
    gradient : float
        The largest absolute entry of the gradient of the mean objective where the solver stopped.
    """

    labels: Int
    weights: Float64
    intercept: Float64
    mean: Float64
    scale: Float64
    converged: bool
    gradient: float

    @property
    def directions(self) -> Float64:
        """The weight vectors (C, D) in raw activation coordinates, their mean over classes removed.

        A softmax does not change when one vector is added to the weights of all classes; without their mean they span
        at most C-1 directions.
        """
        raw_CD = self.weights / self.scale
        return raw_CD - raw_CD.mean(axis=0)

    def predict(self, activations: Float) -> Int:
        """The predicted class (…) of activations (…, D)."""
        raw_CD = (self.weights / self.scale).astype(np.float32)
        # Centred first: where the mean is large, its product with the weights would drown the rest in float32.
        scores = (activations - self.mean.astype(np.float32)) @ raw_CD.T + self.intercept.astype(np.float32)
        return self.labels[np.argmax(scores, axis=-1)]


def fit_probe(h_ND: Float, y_N: Int, settings: ProbeSettings) -> Probe:
    """Fit multinomial logistic regression with L2 from activations to classes.

    Parameters
    ----------
    h_ND : float32 array (N, D)
        Activations, finite.
    y_N : int64 array (N,)
        The state variable; classes that do not occur are never predicted.
    settings : ProbeSettings
        Scaling and solver.

    Raises
    ------
    ValueError
        With fewer than two classes in `y_N`, where there is nothing to fit.
    """
    labels, dense_N = np.unique(y_N, return_inverse=True)
    if len(labels) < 2:
        raise ValueError(f"a probe needs two classes; the sample holds {labels.tolist()} alone")
    mean_D, scale_D = _scaling(h_ND, settings.scale)
    x_ND = ((h_ND - mean_D.astype(np.float32)) / scale_D.astype(np.float32)).astype(np.float32, copy=False)
    varying_KD = _varying_directions(x_ND)
    solve = _solve_with_sklearn if settings.solver == "sklearn" else _solve
    x_NK = x_ND @ varying_KD.T.astype(np.float32)
    weights_CK, intercept_C, gradient = solve(x_NK, dense_N.astype(np.int64), len(labels), settings)
    weights_CD = weights_CK @ varying_KD
    return Probe(labels, weights_CD, intercept_C, mean_D, scale_D, gradient <= settings.tolerance, gradient)


def sample_positions(n: int, length: int, at_most: int, rng: np.random.Generator, min_position: int = 0) -> Int:
    """Flat indices into (n, length) of at most `at_most` positions, uniform without replacement, ascending.

    Never a stride: a stride of 2 on Dyck sees odd depths only.
    """
    columns = length - min_position
    total = n * columns
    chosen = np.arange(total) if total <= at_most else np.sort(rng.choice(total, at_most, replace=False))
    return (chosen // columns) * length + min_position + chosen % columns


def permute_labels(y_BL: Int, rng: np.random.Generator) -> Int:
    """Labels (n, length) permuted across sequences, at every position by a permutation of its own.

    What a predictor can know from the position stays as it was; what it can know from the sequence is gone.
    """
    return rng.permuted(y_BL, axis=0)


def _scaling(h_ND: Float, mode: Scale) -> tuple[Float64, Float64]:
    mean_D = h_ND.mean(axis=0, dtype=np.float64)
    deviation_D = h_ND.std(axis=0, dtype=np.float64)
    if mode == "site":
        deviation_D = np.full_like(deviation_D, deviation_D.mean())
    # What varies by rounding alone stays as it is: dividing would blow it up to a signal.
    dead_D = deviation_D <= 1e-6 * np.abs(mean_D)
    return mean_D, np.where(dead_D | (deviation_D == 0), 1.0, deviation_D)


def _varying_directions(x_ND: Float) -> Float64:
    """An orthonormal basis (K, D) of the directions in which the features vary by more than float32 rounding.

    The optimum lies in their span, and a rotation leaves the penalty as it is: fitting there is the same problem. What
    is left out is the rounding that an ablation leaves behind, which holds no state a model could use.
    """
    x64_ND = x_ND.astype(np.float64)
    variance_D, directions_DD = np.linalg.eigh(x64_ND.T @ x64_ND)
    varying_D = variance_D > _ROUNDING_VARIANCE * variance_D[-1]
    return directions_DD.T[varying_D]


def _solve(x_ND: Float, y_N: Int, classes: int, settings: ProbeSettings) -> tuple[Float64, Float64, float]:
    fit = fit_softmax(
        x_ND,
        y_N,
        classes,
        strength=settings.strength,
        tolerance=settings.tolerance,
        max_iterations=settings.max_iterations,
    )
    return fit.weights, fit.intercept, fit.gradient


def _solve_with_sklearn(x_ND: Float, y_N: Int, classes: int, settings: ProbeSettings) -> tuple[Float64, Float64, float]:
    # Imported where it is used, and without types: scikit-learn has none.
    linear_model: Any = importlib.import_module("sklearn.linear_model")
    exceptions: Any = importlib.import_module("sklearn.exceptions")
    model = linear_model.LogisticRegression(
        C=settings.strength, tol=settings.tolerance, max_iter=settings.max_iterations
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        model.fit(x_ND.astype(np.float64), y_N)
    weights_CD = np.asarray(model.coef_, np.float64)
    intercept_C = np.asarray(model.intercept_, np.float64)
    if classes == 2:  # one vector for the second class: split it evenly, as a softmax would have it
        weights_CD = np.concatenate([-weights_CD, weights_CD]) / 2
        intercept_C = np.concatenate([-intercept_C, intercept_C]) / 2
    return weights_CD, intercept_C, _gradient(x_ND, y_N, weights_CD, intercept_C, settings.strength)


def _gradient(x_ND: Float, y_N: Int, weights_CD: Float64, intercept_C: Float64, strength: float) -> float:
    scores_NC = x_ND @ weights_CD.T + intercept_C
    scores_NC -= scores_NC.max(axis=1, keepdims=True)
    share_NC = np.exp(scores_NC)
    share_NC /= share_NC.sum(axis=1, keepdims=True)
    share_NC[np.arange(len(y_N)), y_N] -= 1.0
    gradient_CD = share_NC.T @ x_ND / len(y_N) + weights_CD / (strength * len(y_N))
    return float(max(np.abs(gradient_CD).max(), np.abs(share_NC.mean(axis=0)).max()))
