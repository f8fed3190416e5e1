"""What protocols that read a state with probes share: parameters, data, and the profile over sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..measure.chance import majority_by_position
from ..measure.probes import Probe, ProbeSettings, Scale, fit_probe, permute_labels, sample_positions
from .base import CellView, FloatArray, ScoredParams

__all__ = [
    "Labels",
    "ProbeParams",
    "SiteScore",
    "clean_probes",
    "labels_of",
    "permuted",
    "score_site",
    "site_activations",
]

Int = NDArray[np.int64]


class ProbeParams(ScoredParams):
    """How probes are fitted and scored."""

    max_positions: int = Field(default=20_000, ge=1)
    """Positions that a probe is fitted on: drawn uniformly at random, or all if there are no more."""
    solver: Literal["newton", "sklearn"] = "newton"
    """The built-in solver, or scikit-learn's logistic regression."""
    strength: float = Field(default=1.0, gt=0.0)
    """Inverse of the L2 penalty (scikit-learn's C)."""
    tolerance: float = Field(default=1e-5, gt=0.0)
    """The largest entry of the gradient of the mean objective at which a fit has converged."""
    max_iterations: int = Field(default=100, ge=1)
    """Most steps of the solver."""
    best_within: float = Field(default=0.005, ge=0.0, le=1.0)
    """Sites this close to the best one, in accuracy, count as tied with it."""
    draws: int = Field(default=2000, ge=100, le=100_000)
    """Bootstrap resamples of whole sequences."""

    def settings(self, scale: Scale) -> ProbeSettings:
        """The settings of one fit."""
        return ProbeSettings(scale, self.solver, self.strength, self.tolerance, self.max_iterations)


@dataclass(frozen=True)
class Labels:
    """One state variable on the probes' data, from `min_position` on where it is scored.

    Attributes
    ----------
    index : int64 array (N,)
        Flat indices into (n, length) of the positions that probes are fitted on.
    train : int64 array (N,)
        The variable there.
    test : int64 array (n_test, scored)
        The variable at the positions that are scored.
    guessed : int64 array (n_test,)
        How many of these the position-only baseline gets right, a sequence.
    first : int
        The first scored position.
    """

    index: Int
    train: Int
    test: Int
    guessed: Int
    first: int

    @property
    def constant(self) -> bool:
        """Whether the sample to fit on holds one class alone."""
        return len(np.unique(self.train)) < 2

    @property
    def scored(self) -> int:
        """Scored positions a sequence."""
        return self.test.shape[1]


@dataclass(frozen=True)
class SiteScore:
    """A probe and how many positions of each test sequence it gets right; or the reason why none was fitted."""

    probe: Probe | None
    correct: Int | None
    reason: str | None = None

    @property
    def converged(self) -> bool:
        """Whether the solver reached its tolerance; true where nothing was fitted."""
        return self.probe is None or self.probe.converged


def labels_of(cell: CellView, variable: str, params: ProbeParams) -> Labels:
    """The labels of a state variable on `probe_train` and `probe_test`, and the positions to fit on.

    The positions are the same for all variables, sites and protocols of a cell.
    """
    train_BL, test_BL = _states(cell, variable)
    return _labels(cell, train_BL, test_BL, cell.task.classes[variable], params)


def permuted(cell: CellView, variable: str, params: ProbeParams) -> Labels:
    """The same with labels permuted across sequences at each position, in both splits."""
    rng = cell.rng(f"probe.permuted.{variable}")
    train_BL, test_BL = (permute_labels(y_BL, rng) for y_BL in _states(cell, variable))
    return _labels(cell, train_BL, test_BL, cell.task.classes[variable], params)


def score_site(train: FloatArray, test: FloatArray, labels: Labels, settings: ProbeSettings) -> SiteScore:
    """Fit a probe at one site and score it.

    Parameters
    ----------
    train : float32 array (N, width)
        Activations at the positions that `labels.index` names.
    test : float32 array (n_test, scored, width)
        Activations at the scored positions.
    labels : Labels
        The state variable at both.
    settings : ProbeSettings
        How to fit.
    """
    if labels.constant:
        return SiteScore(None, None, "one_class")
    if not (np.isfinite(train).all() and np.isfinite(test).all()):
        return SiteScore(None, None, "activations_not_finite")
    probe = fit_probe(train, labels.train, settings)
    return SiteScore(probe, (probe.predict(test) == labels.test).sum(axis=1))


def site_activations(
    cell: CellView, labels: Labels, *, trained: bool = True
) -> Mapping[str, tuple[FloatArray, FloatArray]]:
    """For every site the activations to fit on (N, width) and to score on (n_test, scored, width)."""
    length = cell.spec.lengths.train
    train = cell.activations("probe_train", length, trained=trained)
    test = cell.activations("probe_test", length, trained=trained)
    return {
        site: (h_BLD.reshape(-1, h_BLD.shape[-1])[labels.index], test[site][:, labels.first :])
        for site, h_BLD in train.items()
    }


def clean_probes(
    cell: CellView, labels: Labels, params: ProbeParams, *, variable: str, scale: Scale = "site", trained: bool = True
) -> Mapping[str, SiteScore]:
    """The probe of every site on clean activations, each fitted once for all protocols of a run that ask alike.

    Parameters
    ----------
    cell : CellView
    labels : Labels
        Of `variable`, from `labels_of`.
    params : ProbeParams
    variable : str
    scale : {"site", "per_feature"}
        How activations are scaled.
    trained : bool
        False for the untrained model.
    """
    settings = params.settings(scale)
    key = ("clean_probes", variable, settings, labels.first, params.max_positions, trained)

    def fit() -> Mapping[str, SiteScore]:
        found = site_activations(cell, labels, trained=trained)
        return {site: score_site(train, test, labels, settings) for site, (train, test) in found.items()}

    return cell.once(key, fit)


def _states(cell: CellView, variable: str) -> tuple[Int, Int]:
    length = cell.spec.lengths.train
    train, test = (cell.data(split, length).states[variable] for split in ("probe_train", "probe_test"))
    return train, test


def _labels(cell: CellView, train_BL: Int, test_BL: Int, classes: int, params: ProbeParams) -> Labels:
    n, length = train_BL.shape
    first = params.min_position
    if first >= length:
        raise ValueError(f"min_position {first} leaves no position of a sequence of length {length}")
    index = sample_positions(n, length, params.max_positions, cell.rng("probe.positions"), first)
    test = test_BL[:, first:]
    guessed = (majority_by_position(train_BL, classes)[first:] == test).sum(axis=1)
    return Labels(index, train_BL.reshape(-1)[index], test, guessed, first)
