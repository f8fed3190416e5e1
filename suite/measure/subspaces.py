"""Subspaces of activation space: orthonormal bases, class-mean directions, random controls, ablation.

Shape suffixes: N samples, D width, C classes, K rank, M vectors. A basis (K, D) has orthonormal rows, in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

    from ...adapters.base import Edit

__all__ = ["ablate", "ablation_edit", "class_mean_directions", "projector", "random_basis", "span"]

Float = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int = NDArray[np.int64]

RELATIVE_TOLERANCE = 1e-5
"""Singular values below this share of the largest are rounding, so that C classes give C-1 directions."""


def span(vectors_MD: Float64) -> Float64:
    """An orthonormal basis (K, D) of the span of finite vectors (M, D); empty where all are zero."""
    _, values_K, basis_KD = np.linalg.svd(np.asarray(vectors_MD, np.float64), full_matrices=False)
    return basis_KD[values_K > RELATIVE_TOLERANCE * values_K.max(initial=0.0)]


def class_mean_directions(h_ND: Float, y_N: Int) -> Float64:
    """Each class's mean activation minus the mean of these means: (classes present, D)."""
    labels, dense_N = np.unique(y_N, return_inverse=True)
    member_CN = (np.arange(len(labels))[:, None] == dense_N).astype(np.float64)
    means_CD = member_CN @ h_ND.astype(np.float64) / member_CN.sum(axis=1, keepdims=True)
    return means_CD - means_CD.mean(axis=0)


def random_basis(rank: int, width: int, rng: np.random.Generator) -> Float64:
    """An orthonormal basis (rank, width) of a uniformly random subspace."""
    orthonormal_DK, upper_KK = np.linalg.qr(rng.standard_normal((width, rank)))
    return (orthonormal_DK * np.sign(np.diag(upper_KK))).T


def projector(basis_KD: Float64) -> Float64:
    """The orthogonal projector (D, D) onto the basis."""
    return basis_KD.T @ basis_KD


def ablate(activations: Float, basis_KD: Float64, fill_D: Float64) -> Float:
    """h − P(h − m): activations (…, D) whose part inside the basis is that of the fill."""
    basis32_KD, fill32_D = basis_KD.astype(np.float32), fill_D.astype(np.float32)
    return (activations - ((activations - fill32_D) @ basis32_KD.T) @ basis32_KD).astype(np.float32, copy=False)


def ablation_edit(basis_KD: Float64, fill_D: Float64) -> Edit:
    """`ablate` as an edit of a running model, in the activations' own dtype and on their device."""

    def edit(h_BLD: torch.Tensor) -> torch.Tensor:
        # float32 at least: in half precision the projector would not be one.
        wide_BLD = h_BLD.float()
        part_BLK = (wide_BLD - wide_BLD.new_tensor(fill_D)) @ wide_BLD.new_tensor(basis_KD).T
        return (wide_BLD - part_BLK @ wide_BLD.new_tensor(basis_KD)).to(h_BLD.dtype)

    return edit
