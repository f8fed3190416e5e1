"""Directions in order of what they hold: principal directions of activations, and of the means of classes.

Shape suffixes: N samples, D width, C classes, K rank. A basis (K, D) has orthonormal rows, in float64, the first the
largest, so that its first k rows are the best subspace of k directions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .subspaces import RELATIVE_TOLERANCE, class_mean_directions, span

__all__ = ["class_mean_singular_directions", "principal_directions", "variance_share"]

Float = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int = NDArray[np.int64]


def principal_directions(h_ND: Float) -> Float64:
    """The directions (K, D) in which centred activations vary, the largest variance first.

    Directions with a standard deviation below 1e-5 of the largest are rounding and left out; of activations that don't
    vary there are none.
    """
    if not _varies(h_ND):
        return np.zeros((0, h_ND.shape[-1]))
    centred_ND = h_ND - h_ND.mean(axis=0, dtype=np.float64)
    # Of the (D, D) products: the singular values of all N samples would cost far more.
    variance_D, directions_DD = np.linalg.eigh(centred_ND.T @ centred_ND)
    found_D = variance_D > RELATIVE_TOLERANCE**2 * variance_D[-1]
    return directions_DD.T[found_D][::-1]


def class_mean_singular_directions(h_ND: Float, y_N: Int) -> Float64:
    """The right singular directions (K, D) of the centred class means, the largest first; at most C-1.

    Each class counts once, however many samples it has. Of activations that don't vary there are none.
    """
    if not _varies(h_ND):
        return np.zeros((0, h_ND.shape[-1]))
    return span(class_mean_directions(h_ND, y_N))


def variance_share(h_ND: Float, basis_KD: Float64) -> float:
    """The share of variance, summed over features, that lies inside a basis; NaN if the activations don't vary."""
    if not _varies(h_ND):
        return float("nan")
    centred_ND = h_ND - h_ND.mean(axis=0, dtype=np.float64)
    return float(((centred_ND @ basis_KD.T) ** 2).sum() / (centred_ND**2).sum())


def _varies(h_ND: Float) -> bool:
    """Whether any feature does; where none does, centring leaves rounding that looks like directions."""
    return len(h_ND) > 0 and float(np.ptp(h_ND, axis=0).max()) > 0.0
