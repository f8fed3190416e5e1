"""What protocols that ablate subspaces share: rulers, and the model's output under an ablation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..measure.probes import ProbeSettings, fit_probe
from ..measure.scoring import predictions
from ..measure.subspaces import ablate, ablation_edit, class_mean_directions, random_basis, span
from .base import CellView, FloatArray
from .probing import Labels, SiteScore, score_site

__all__ = ["AblatedModel", "Fill", "Ruler", "SiteData", "ruler_basis"]

Int = NDArray[np.int64]
Float64 = NDArray[np.float64]
Ruler = Literal["means", "probe", "probe_per_feature"]
Fill = Literal["mean", "zero"]


@dataclass(frozen=True)
class SiteData:
    """Clean activations of one site on the probes' data.

    Attributes
    ----------
    name : str
    train : float32 array (N, width)
        At the positions that probes are fitted on.
    test : float32 array (n_test, scored, width)
        At the scored positions.
    score : SiteScore
        The clean probe, with one scale a site.
    """

    name: str
    train: FloatArray
    test: FloatArray
    score: SiteScore

    def fill(self, fill: Fill) -> Float64:
        """What stands in place of the ablated part (width,): the mean activation, or zero."""
        weight = 0.0 if fill == "zero" else 1.0 / len(self.train)
        total_D: Float64 = self.train.sum(axis=0, dtype=np.float64)
        return total_D * weight

    def refit(self, basis_KD: Float64, fill_D: Float64, labels: Labels, settings: ProbeSettings) -> SiteScore:
        """A fresh probe, fitted and scored on the ablated activations."""
        return score_site(ablate(self.train, basis_KD, fill_D), ablate(self.test, basis_KD, fill_D), labels, settings)


class AblatedModel:
    """The trained model's output on `evaluate` at the training length, clean and under ablations.

    Attributes
    ----------
    n : int
        Sequences.
    scored : int
        Scored positions a sequence.
    clean : int64 array (n,)
        Right positions a sequence, without any ablation.
    random_n : int
        Sequences that random subspaces are measured on: the first of them, or all.
    """

    def __init__(self, cell: CellView, *, first: int, random_draws: int, random_sequences: int | None) -> None:
        self._cell = cell
        self._first = first
        self._random_draws = random_draws
        self._random: dict[tuple[str, int, Fill], Int] = {}
        length = cell.spec.lengths.train
        batch = cell.data("evaluate", length)
        self._tokens = batch.tokens
        self._y = batch.states[cell.task.target][:, first:]
        self.n, self.scored = self._y.shape
        self.random_n = min(self.n, random_sequences or self.n)
        self.clean = self._count(cell.logits("evaluate", length))

    def ablated(self, site: str, basis_KD: Float64, fill_D: Float64) -> Int:
        """Right positions a sequence (n,) with the basis ablated at the site, at all positions."""
        return self._ablated(site, basis_KD, fill_D, self.n)

    def random(self, site: SiteData, rank: int, fill: Fill) -> Int:
        """The same, (random_draws, random_n), for random subspaces, once for all rulers of a rank and fill."""
        key = (site.name, rank, fill)
        if key not in self._random:
            width = site.train.shape[-1]
            # The same subspaces at every site: their luck must not decide which site looks most causal.
            rng = self._cell.rng(f"causal.random.{width}.{rank}")
            bases = [random_basis(rank, width, rng) for _ in range(self._random_draws)]
            self._random[key] = np.stack(
                [self._ablated(site.name, basis, site.fill(fill), self.random_n) for basis in bases]
            )
        return self._random[key]

    def _ablated(self, site: str, basis_KD: Float64, fill_D: Float64, n: int) -> Int:
        with self._cell.adapter.edit({site: ablation_edit(basis_KD, fill_D)}):
            return self._count(self._cell.adapter.logits(self._tokens[:n]))

    def _count(self, logits: FloatArray) -> Int:
        return (predictions(logits)[:, self._first :] == self._y[: len(logits)]).sum(axis=1)


def ruler_basis(ruler: Ruler, site: SiteData, labels: Labels, settings: ProbeSettings) -> tuple[Float64, bool]:
    """An orthonormal basis (K, width) of a ruler's directions, in raw activation coordinates.

    Returns
    -------
    basis : float64 array (K, width)
        Empty where the activations do not vary.
    converged : bool
        Whether the probe behind it did; true for class means.
    """
    if float(np.ptp(site.train, axis=0).max()) == 0.0:
        return np.zeros((0, site.train.shape[-1])), True
    if ruler == "means":
        return span(class_mean_directions(site.train, labels.train)), True
    if ruler == "probe_per_feature":
        probe = fit_probe(site.train, labels.train, settings)
    else:
        assert site.score.probe is not None
        probe = site.score.probe
    return span(probe.directions), probe.converged
