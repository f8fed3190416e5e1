"""Erasing a variable from activations: iterative nullspace projection (INLP) and least-squares erasure (LEACE).

Sources: Ravfogel et al. 2020, "Null It Out" (arXiv 2004.07667), algorithm 1; Belrose et al. 2023, "LEACE: Perfect
linear concept erasure in closed form" (arXiv 2306.03819), theorem 4.3.

Shape suffixes: N samples, D width, C classes, K rank, M vectors. A basis (K, D) has orthonormal rows, in float64.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .probes import Probe, ProbeSettings, fit_probe
from .subspaces import RELATIVE_TOLERANCE, ablate, span

__all__ = ["InlpStep", "Leace", "Projection", "extend", "inlp", "leace", "one_hot", "varying_directions"]

Float = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int = NDArray[np.int64]

_ROUNDING_VARIANCE = 1e-12
"""The variance of float32 rounding, as a share of the largest variance of a direction; as in `probes`."""

_SVD_TOLERANCE = 1e-4
"""Correlations below this are left in by LEACE. Those that chance gives 20,000 samples are fifty times as large."""


@dataclass(frozen=True)
class Projection:
    """h − P(h − m): the part of activations inside a basis is that of the fill.

    Attributes
    ----------
    basis : float64 array (K, D)
        What is erased.
    fill : float64 array (D,)
        m.
    rest : float64 array (D,) or None
        What all activations are alike, where nothing that varies is outside the basis: without it the rounding that is
        left could still be read.
    """

    basis: Float64
    fill: Float64
    rest: Float64 | None = None

    @property
    def rank(self) -> int:
        """How many directions are erased."""
        return len(self.basis)

    def __call__(self, activations: Float) -> Float:
        """Activations (…, D) without what is in the basis."""
        if self.rest is not None:
            return np.broadcast_to(self.rest.astype(np.float32), activations.shape).copy()
        return ablate(activations, self.basis, self.fill) if self.rank else activations


@dataclass(frozen=True)
class InlpStep:
    """One step: what is erased by now, and a fresh probe fitted on what is left."""

    erase: Projection
    probe: Probe


def inlp(
    h_ND: Float, y_N: Int, settings: ProbeSettings, fill_D: Float64, *, max_rank: int, first: Probe | None = None
) -> Iterator[InlpStep]:
    """Fit a probe, erase its directions as well, fit anew on what is left, and so on.

    The probe of a step is fitted on the activations with everything erased by then: it is the refitted probe of the
    step before, and the source of the next step's directions. Steps are made as they are asked for, so a caller stops
    where its own test says that nothing can be read any more.

    Parameters
    ----------
    h_ND : float32 array (N, D)
        Clean activations.
    y_N : int64 array (N,)
        The variable, of two classes at least.
    settings : ProbeSettings
        How probes are fitted.
    fill_D : float64 array (D,)
        What stands in place of the erased part.
    max_rank : int
        Most directions to erase; a last step that would pass it takes the strongest that still fit.
    first : Probe, optional
        The probe on clean activations, if there is one.

    Yields
    ------
    InlpStep
        First with nothing erased, then after each step; none once `max_rank` is reached or no direction is left.
    """
    varying = len(varying_directions(h_ND))
    most = min(max_rank, varying)
    mean_D: Float64 = h_ND.mean(axis=0, dtype=np.float64)
    erase = Projection(np.zeros((0, h_ND.shape[1])), fill_D)
    probe = fit_probe(h_ND, y_N, settings) if first is None else first
    while True:
        yield InlpStep(erase, probe)
        basis_KD = extend(erase.basis, probe.directions, most)
        if len(basis_KD) == erase.rank:
            return
        rest_D = mean_D - (mean_D - fill_D) @ basis_KD.T @ basis_KD if len(basis_KD) == varying else None
        erase = Projection(basis_KD, fill_D, rest_D)
        probe = fit_probe(erase(h_ND), y_N, settings)


def extend(basis_KD: Float64, vectors_MD: Float64, most: int) -> Float64:
    """The basis with what the vectors have outside it, strongest first, up to `most` directions in all."""
    outside_MD = vectors_MD
    for _ in range(2):  # once more for what rounding left of the first time
        outside_MD = outside_MD - (outside_MD @ basis_KD.T) @ basis_KD
    if np.linalg.norm(outside_MD) <= RELATIVE_TOLERANCE * np.linalg.norm(vectors_MD):
        return basis_KD
    room = max(0, most - len(basis_KD))
    return np.concatenate([basis_KD, span(outside_MD)[:room]])


@dataclass(frozen=True)
class Leace:
    """The affine map h − L R (h − m) of least change after which no linear probe beats a constant.

    Attributes
    ----------
    mean : float64 array (D,)
        m, which stays as it is.
    left : float64 array (D, K)
        L.
    right : float64 array (K, D)
        R.
    """

    mean: Float64
    left: Float64
    right: Float64

    @property
    def rank(self) -> int:
        """The rank of what is taken out: C − 1 for C classes."""
        return len(self.right)

    def __call__(self, activations: Float) -> Float:
        """Activations (…, D), erased; in float64 within, for R is large where activations vary little."""
        part = (activations - self.mean) @ self.right.T
        return (activations - part @ self.left.T).astype(np.float32)


def leace(h_ND: Float, z_NC: Float64) -> Leace:
    """Fit LEACE with the `concept_erasure` package.

    Parameters
    ----------
    h_ND : float32 array (N, D)
        Activations.
    z_NC : float64 array (N, C)
        The concept: one-hot for classes (see `one_hot`). Integer labels (N, 1) erase what is linear in the number of
        the class, and leave the classes readable.
    """
    # Imported where they are used: torch is slow to import, and the package has no types.
    torch: Any = importlib.import_module("torch")
    package: Any = importlib.import_module("concept_erasure")
    mean_D: Float64 = h_ND.mean(axis=0, dtype=np.float64)
    # Directions that vary by rounding alone would be whitened to the size of all others.
    varying_VD = varying_directions(h_ND)
    if len(varying_VD) == 0:
        return Leace(mean_D, np.zeros((len(mean_D), 0)), np.zeros((0, len(mean_D))))
    x_NV = (h_ND - mean_D) @ varying_VD.T
    fitter = package.LeaceFitter(
        len(varying_VD),
        z_NC.shape[1],
        method="leace",
        affine=True,
        constrain_cov_trace=False,
        shrinkage=False,
        svd_tol=_SVD_TOLERANCE,
        dtype=torch.float64,
    )
    eraser = fitter.update(torch.as_tensor(x_NV), torch.as_tensor(z_NC)).eraser
    left_VK, right_KV = (np.asarray(matrix.numpy(), np.float64) for matrix in (eraser.proj_left, eraser.proj_right))
    kept_K = np.abs(left_VK).max(axis=0) > 0  # what is under the tolerance is set to 0, not left out
    return Leace(mean_D, varying_VD.T @ left_VK[:, kept_K], right_KV[kept_K] @ varying_VD)


def one_hot(y_N: Int) -> Float64:
    """One column a class that occurs: (N, C)."""
    labels, dense_N = np.unique(y_N, return_inverse=True)
    return np.eye(len(labels))[dense_N]


def varying_directions(h_ND: Float) -> Float64:
    """An orthonormal basis (K, D) of the directions in which activations vary by more than float32 rounding."""
    centred_ND = h_ND - h_ND.mean(axis=0, dtype=np.float64)
    variance_D, directions_DD = np.linalg.eigh(centred_ND.T @ centred_ND)
    size = float(np.square(h_ND, dtype=np.float64).sum())
    # The second: a site that never varies is its mean and what rounding makes of it.
    varies_D = (variance_D > _ROUNDING_VARIANCE * variance_D[-1]) & (variance_D > 1e-14 * size)
    return directions_DD.T[varies_D]
