"""Multinomial logistic regression with L2, solved by preconditioned L-BFGS in float32.

Shape suffixes: N samples, D features, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SoftmaxFit", "fit_softmax"]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int = NDArray[np.int64]

_MEMORY = 20
_SUFFICIENT_DECREASE = 1e-4
_ROUNDING = 2e-7
"""Relative error of the float32 objective: a step that raises it by less may still be right."""


@dataclass(frozen=True)
class SoftmaxFit:
    """The minimum, or where the search stopped.

    Attributes
    ----------
    weights : float64 array (C, D)
    intercept : float64 array (C,)
    gradient : float
        Largest absolute entry of the gradient of the mean objective there.
    iterations : int
        Steps taken.
    """

    weights: Float64
    intercept: Float64
    gradient: float
    iterations: int


def fit_softmax(
    x_ND: Float32, y_N: Int, classes: int, *, strength: float, tolerance: float, max_iterations: int
) -> SoftmaxFit:
    """Minimise the mean cross-entropy plus ``||W||² / (2 · strength · N)``; the intercept is free.

    The same objective as scikit-learn's ``LogisticRegression(C=strength)``. The search runs in coordinates in which
    Böhning's bound of the Hessian (1992, Annals of the Institute of Statistical Mathematics 44) is the identity, which
    takes the features' correlations out of it: tens of steps where plain L-BFGS takes hundreds.

    Parameters
    ----------
    x_ND : float32 array (N, D)
        Features, centred and of unit scale.
    y_N : int64 array (N,)
        Classes 0 … classes-1, each present.
    classes : int
        C ≥ 2.
    strength : float
        Inverse of the regularisation, scikit-learn's C.
    tolerance : float
        The search ends when no entry of the gradient of the mean objective is larger.
    max_iterations : int
        Most steps.
    """
    problem = _Problem(x_ND, y_N, classes, 1.0 / (strength * len(y_N)))
    point, gradient, iterations = _minimise(problem, tolerance, max_iterations)
    weights_DC = problem.weights(point)
    return SoftmaxFit(weights_DC.T.copy(), point[-1].copy(), gradient, iterations)


class _Problem:
    """Objective and gradient at a point (D + 1, C): weights in preconditioned coordinates above the intercept."""

    def __init__(self, x_ND: Float32, y_N: Int, classes: int, ridge: float) -> None:
        n, width = x_ND.shape
        bound_DD = 0.5 * (x_ND.T @ x_ND).astype(np.float64) / n + max(ridge, 1e-8) * np.eye(width)
        self.factor_DD: Float64 = np.linalg.cholesky(bound_DD)
        self.unfactor_DD: Float64 = np.linalg.inv(self.factor_DD)
        z_ND = np.empty((n, width + 1), np.float32)
        z_ND[:, :-1] = x_ND @ self.unfactor_DD.T.astype(np.float32)
        z_ND[:, -1] = 1.0
        self.z_ND = z_ND
        self.y_N = y_N
        self.rows_N: Int = np.arange(n)
        self.ridge = ridge
        self.classes = classes

    def start(self) -> Float64:
        """All weights zero, the intercept at the classes' frequencies."""
        point = np.zeros((self.z_ND.shape[1], self.classes))
        log_share = np.log(np.bincount(self.y_N, minlength=self.classes) / len(self.y_N))
        point[-1] = log_share - log_share.mean()
        return point

    def weights(self, point: Float64) -> Float64:
        """Weights (D, C) in the coordinates of the features."""
        return self.unfactor_DD.T @ point[:-1]

    def value_and_gradient(self, point: Float64) -> tuple[float, Float64]:
        n = len(self.y_N)
        scores_NC = self.z_ND @ point.astype(np.float32)
        scores_NC -= scores_NC.max(axis=1, keepdims=True)
        right_N = scores_NC[self.rows_N, self.y_N]
        np.exp(scores_NC, out=scores_NC)
        total_N = scores_NC.sum(axis=1)
        loss = float((np.log(total_N) - right_N).sum(dtype=np.float64)) / n
        scores_NC /= total_N[:, None]
        scores_NC[self.rows_N, self.y_N] -= 1.0
        gradient = (self.z_ND.T @ scores_NC).astype(np.float64) / n
        weights_DC = self.weights(point)
        gradient[:-1] += self.ridge * (self.unfactor_DD @ weights_DC)
        return loss + 0.5 * self.ridge * float((weights_DC**2).sum()), gradient

    def size(self, gradient: Float64) -> float:
        """Largest absolute entry of a gradient, in the coordinates of the features."""
        weights = self.factor_DD @ gradient[:-1]
        return float(max(np.abs(weights).max(initial=0.0), np.abs(gradient[-1]).max()))


def _minimise(problem: _Problem, tolerance: float, max_iterations: int) -> tuple[Float64, float, int]:
    point = problem.start()
    value, gradient = problem.value_and_gradient(point)
    steps: list[Float64] = []
    changes: list[Float64] = []
    for iteration in range(max_iterations):
        if problem.size(gradient) <= tolerance:
            return point, problem.size(gradient), iteration
        direction = -_inverse_hessian_times(gradient, steps, changes)
        slope = float((direction * gradient).sum())
        found = _search(problem, point, value, direction, slope)
        if found is None:
            if not steps:
                return point, problem.size(gradient), iteration
            steps.clear()
            changes.clear()
            continue
        new_point, new_value, new_gradient = found
        step, change = new_point - point, new_gradient - gradient
        if float((step * change).sum()) > 1e-10 * float(np.sqrt((step**2).sum() * (change**2).sum())):
            steps.append(step)
            changes.append(change)
            del steps[:-_MEMORY], changes[:-_MEMORY]
        point, value, gradient = new_point, new_value, new_gradient
    return point, problem.size(gradient), max_iterations


def _search(
    problem: _Problem, point: Float64, value: float, direction: Float64, slope: float
) -> tuple[Float64, float, Float64] | None:
    """Backtrack from a full step until the objective falls enough; None if it never does."""
    length = 1.0
    for _ in range(20):
        candidate = point + length * direction
        new_value, gradient = problem.value_and_gradient(candidate)
        if new_value <= value + _SUFFICIENT_DECREASE * length * slope + _ROUNDING * abs(value):
            return candidate, new_value, gradient
        length *= 0.5
    return None


def _inverse_hessian_times(gradient: Float64, steps: list[Float64], changes: list[Float64]) -> Float64:
    """L-BFGS's two loops (Nocedal & Wright, Numerical Optimization, algorithm 7.4)."""
    q = gradient.copy()
    factors: list[tuple[float, float]] = []
    for step, change in zip(reversed(steps), reversed(changes), strict=True):
        rho = 1.0 / float((step * change).sum())
        alpha = rho * float((step * q).sum())
        q -= alpha * change
        factors.append((rho, alpha))
    if steps:
        q *= float((steps[-1] * changes[-1]).sum()) / float((changes[-1] ** 2).sum())
    for step, change, (rho, alpha) in zip(steps, changes, reversed(factors), strict=True):
        q += (alpha - rho * float((change * q).sum())) * step
    return q
