"""Multinomial logistic regression with L2, solved by a truncated Newton method.

Shape suffixes: N samples, D features (the last one constant, for the intercept), C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SoftmaxFit", "fit_softmax"]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int = NDArray[np.int64]

_CONJUGATE_STEPS = 40
_FORCING = 0.25
_HALVINGS = 20
_SUFFICIENT_DECREASE = 1e-4
_ROUNDING = 2e-7
"""Relative error of the float32 objective: a step that raises it by less may still be right."""
_CURVED = 1e-6
"""Samples whose predicted class has a probability this close to 1 add nothing to the curvature."""
_GRAM_PER = 16
"""Samples a feature that each block of the preconditioner is made from; a matter of speed, not of the result."""


@dataclass(frozen=True)
class SoftmaxFit:
    """The minimum, or where the search stopped.

    Attributes
    ----------
    weights : float64 array (C, D - 1)
    intercept : float64 array (C,)
    gradient : float
        Largest absolute entry of the gradient of the mean objective there.
    iterations : int
        Newton steps taken.
    """

    weights: Float64
    intercept: Float64
    gradient: float
    iterations: int


def fit_softmax(
    x_ND: Float32, y_N: Int, classes: int, *, strength: float, tolerance: float, max_iterations: int
) -> SoftmaxFit:
    """Minimise the mean cross-entropy plus ``||W||² / (2 · strength · N)``; the intercept is free.

    The same objective as scikit-learn's ``LogisticRegression(C=strength)``. Newton's direction comes from conjugate
    gradients, preconditioned by the Hessian's blocks of one class each. Where classes separate, L-BFGS takes
    thousands of steps to a direction that has settled; this takes tens.

    Parameters
    ----------
    x_ND : float32 array (N, D - 1)
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
        Most Newton steps.
    """
    ones_N1 = np.ones((len(x_ND), 1), np.float32)
    problem = _Problem(np.concatenate([x_ND, ones_N1], axis=1), y_N, classes, 1.0 / (strength * len(y_N)))
    point_CD, gradient, iterations = _minimise(problem, tolerance, max_iterations)
    return SoftmaxFit(point_CD[:, :-1].copy(), point_CD[:, -1].copy(), gradient, iterations)


@dataclass(frozen=True)
class _Point:
    """Where the search stands: the objective, its gradient, and every sample's predicted distribution."""

    weights_CD: Float64
    value: float
    gradient_CD: Float64
    share_CN: Float32

    @property
    def steepness(self) -> float:
        return float(np.abs(self.gradient_CD).max())


class _Problem:
    """The objective and its derivatives."""

    def __init__(self, x_ND: Float32, y_N: Int, classes: int, ridge: float) -> None:
        self.x_ND = x_ND
        self.classes = classes
        self.n, width = x_ND.shape
        self._y_N = y_N
        self._columns_N: Int = np.arange(self.n)
        self.ridge_D = np.full(width, ridge)
        self.ridge_D[-1] = 0.0

    def start(self) -> _Point:
        """Weights zero, the intercept at the classes' frequencies."""
        weights_CD = np.zeros((self.classes, self.x_ND.shape[1]))
        log_share_C = np.log(np.bincount(self._y_N, minlength=self.classes) / self.n)
        weights_CD[:, -1] = log_share_C - log_share_C.mean()
        return self.at(weights_CD)

    def at(self, weights_CD: Float64) -> _Point:
        """The objective at `weights_CD`."""
        share_CN = weights_CD.astype(np.float32) @ self.x_ND.T
        share_CN -= share_CN.max(axis=0)
        right_N = share_CN[self._y_N, self._columns_N]
        np.exp(share_CN, out=share_CN)
        total_N = share_CN.sum(axis=0)
        loss = float((np.log(total_N) - right_N).sum(dtype=np.float64)) / self.n
        share_CN /= total_N
        excess_CN = share_CN.copy()
        excess_CN[self._y_N, self._columns_N] -= 1.0
        gradient_CD = (excess_CN @ self.x_ND).astype(np.float64) / self.n + self.ridge_D * weights_CD
        value = loss + 0.5 * float((self.ridge_D * weights_CD**2).sum())
        return _Point(weights_CD, value, gradient_CD, share_CN)


class _Hessian:
    """The curvature at a point: products with it, and the inverse of its blocks of one class each."""

    def __init__(self, problem: _Problem, point: _Point) -> None:
        self._ridge_D = problem.ridge_D
        self._n = problem.n
        curved_N = (point.share_CN.max(axis=0) < 1.0 - _CURVED).nonzero()[0]
        few = len(curved_N) < 0.7 * problem.n
        self._x_ND = problem.x_ND[curved_N] if few else problem.x_ND
        self._share_CN = point.share_CN[:, curved_N] if few else point.share_CN
        self._inverse_CDD = np.stack([self._inverse_block(share_N) for share_N in self._share_CN])

    def times(self, direction_CD: Float64) -> Float64:
        """The Hessian times a direction."""
        change_CN = self._share_CN * (direction_CD.astype(np.float32) @ self._x_ND.T)
        change_CN -= self._share_CN * change_CN.sum(axis=0)
        return (change_CN @ self._x_ND).astype(np.float64) / self._n + self._ridge_D * direction_CD

    def precondition(self, gradient_CD: Float64) -> Float64:
        """The inverse of the blocks times a gradient, without a part common to all classes, which changes nothing."""
        solved_CD = (self._inverse_CDD @ gradient_CD[:, :, None])[:, :, 0]
        centred_CD: Float64 = solved_CD - solved_CD.mean(axis=0)
        return centred_CD

    def _inverse_block(self, share_N: Float32) -> Float64:
        weight_N = share_N * (1.0 - share_N)
        total = float(weight_N.sum(dtype=np.float64))
        chosen = (weight_N > 1e-2 * total / max(len(weight_N), 1)).nonzero()[0]
        most = _GRAM_PER * self._x_ND.shape[1]
        chosen = chosen[:: max(1, len(chosen) // most)]
        root_N1 = np.sqrt(weight_N[chosen])[:, None]
        weighted_ND = self._x_ND[chosen] * root_N1
        scale = total / (self._n * max(float((root_N1**2).sum(dtype=np.float64)), 1e-30))
        block_DD: Float64 = (weighted_ND.T @ weighted_ND).astype(np.float64) * scale
        # The intercept has no ridge of its own; a little keeps its block invertible.
        block_DD[np.diag_indices_from(block_DD)] += self._ridge_D + 1e-9
        return np.linalg.inv(block_DD).astype(np.float64, copy=False)


def _minimise(problem: _Problem, tolerance: float, max_iterations: int) -> tuple[Float64, float, int]:
    point = problem.start()
    for iteration in range(max_iterations):
        if point.steepness <= tolerance:
            return point.weights_CD, point.steepness, iteration
        direction_CD = _newton_direction(_Hessian(problem, point), point.gradient_CD)
        following = _search(problem, point, direction_CD)
        if following is None:
            return point.weights_CD, point.steepness, iteration
        point = following
    return point.weights_CD, point.steepness, max_iterations


def _newton_direction(hessian: _Hessian, gradient_CD: Float64) -> Float64:
    """Conjugate gradients on H d = −g, to a part of its size that shrinks with it (Nocedal & Wright, algorithm 7.1)."""
    size = float(np.linalg.norm(gradient_CD))
    target = min(_FORCING, np.sqrt(size)) * size
    direction_CD = np.zeros_like(gradient_CD)
    residual_CD = gradient_CD.copy()
    solved_CD = hessian.precondition(residual_CD)
    step_CD = -solved_CD
    product = float((residual_CD * solved_CD).sum())
    for _ in range(_CONJUGATE_STEPS):
        curved_CD = hessian.times(step_CD)
        curvature = float((step_CD * curved_CD).sum())
        if curvature <= 0 or product <= 0:  # rounding: the objective is convex
            break
        length = product / curvature
        direction_CD += length * step_CD
        residual_CD += length * curved_CD
        if float(np.linalg.norm(residual_CD)) <= target:
            break
        solved_CD = hessian.precondition(residual_CD)
        previous, product = product, float((residual_CD * solved_CD).sum())
        step_CD = -solved_CD + (product / previous) * step_CD
    return direction_CD if direction_CD.any() else -hessian.precondition(gradient_CD)


def _search(problem: _Problem, point: _Point, direction_CD: Float64) -> _Point | None:
    """Backtrack from a full step until the objective falls enough; None if it never does."""
    slope = float((direction_CD * point.gradient_CD).sum())
    length = 1.0
    for _ in range(_HALVINGS):
        following = problem.at(point.weights_CD + length * direction_CD)
        allowed = point.value + _SUFFICIENT_DECREASE * length * slope + _ROUNDING * abs(point.value)
        if following.value <= allowed:
            return following
        length *= 0.5
    return None
