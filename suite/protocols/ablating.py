"""What protocols that ablate subspaces share: rulers, and the model's output under an ablation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..measure.chance import majority_by_position, skill
from ..measure.probes import ProbeSettings
from ..measure.scoring import predictions
from ..measure.statistics import Resamples, resampled_weights
from ..measure.subspaces import ablate, class_mean_directions, random_basis, span
from ..spec.results import Coordinate
from .base import CellView, FloatArray, Reading
from .probing import Labels, ProbeParams, SiteScore, clean_probes, score_site, site_activations
from .readings import estimate, undefined

__all__ = [
    "AblatedModel",
    "Change",
    "Drops",
    "Effects",
    "Fill",
    "Ruler",
    "Share",
    "SiteData",
    "refit_readings",
    "ruler_basis",
    "site_data",
]

Int = NDArray[np.int64]
Float64 = NDArray[np.float64]
Ruler = Literal["means", "probe", "probe_per_feature"]
Fill = Literal["mean", "zero"]
Change = Callable[[FloatArray], FloatArray]
"""Activations (…, D) to what stands in their place, of the same shape."""


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
        return self.refit_after(lambda h: ablate(h, basis_KD, fill_D), labels, settings)

    def refit_after(self, change: Change, labels: Labels, settings: ProbeSettings) -> SiteScore:
        """A fresh probe, fitted and scored on changed activations."""
        return score_site(change(self.train), change(self.test), labels, settings)


class AblatedModel:
    """The trained model's output on `evaluate` at one length, clean and with the activations of one site changed.

    Parameters
    ----------
    cell : CellView
    first : int
        The first scored position.
    random_draws : int
        Random subspaces for the control.
    random_sequences : int, optional
        How many of the first sequences the control is measured on; all if left out.
    length : int, optional
        The training length if left out.

    Attributes
    ----------
    length, n, scored : int
        Length, sequences, and scored positions a sequence.
    clean : int64 array (n,)
        Right positions a sequence, without any ablation.
    random_n : int
        Sequences that random subspaces are measured on.
    """

    def __init__(
        self,
        cell: CellView,
        *,
        first: int,
        random_draws: int,
        random_sequences: int | None = None,
        length: int | None = None,
    ) -> None:
        self._cell = cell
        self._first = first
        self._random_draws = random_draws
        self._random: dict[tuple[str, int, bytes], Int] = {}
        self.length = cell.spec.lengths.train if length is None else length
        batch = cell.data("evaluate", self.length)
        self._tokens = batch.tokens
        self._y = batch.states[cell.task.target][:, first:]
        self.n, self.scored = self._y.shape
        if not self.scored:
            raise ValueError(f"min_position {first} leaves no position of a sequence of length {self.length}")
        self.random_n = min(self.n, random_sequences or self.n)
        self.clean = self._count(cell.logits("evaluate", self.length))

    def guessed(self) -> Int:
        """Right positions a sequence (n,) of the best predictor that sees the position alone."""
        target = self._cell.task.target
        seen_BL = self._cell.data("probe_train", self.length).states[target]
        majority_L = majority_by_position(seen_BL, self._cell.task.classes[target])
        return (self._y == majority_L[self._first :]).sum(axis=1)

    def clean_skill(self) -> float:
        """Skill without any ablation; NaN where the position tells all."""
        clean, chance = (np.array(counts.mean() / self.scored) for counts in (self.clean, self.guessed()))
        return float(skill(clean, chance))

    def is_at_chance(self, least: float) -> bool:
        """Whether the skill without any ablation is below `least`; 0 asks for none."""
        # Written so that a skill which is not defined, where the position tells all, counts as none.
        return least > 0 and not self.clean_skill() >= least

    def ablated(self, site: str, basis_KD: Float64, fill_D: Float64) -> Int:
        """Right positions a sequence (n,) with the basis ablated at the site, at all positions."""
        return self.changed(site, lambda h_BLD: ablate(h_BLD, basis_KD, fill_D))

    def changed(self, site: str, change: Change, n: int | None = None) -> Int:
        """Right positions of the first `n` sequences, or all, with the site's activations changed at all positions."""
        clean_BLD = self._cell.activations("evaluate", self.length)[site][:n]
        return self._count(self._cell.adapter.resume(self._tokens[:n], site, change(clean_BLD)))

    def random(self, site: str, rank: int, fill_D: Float64) -> Int:
        """The same, (random_draws, random_n), with random subspaces ablated; once for all that ask alike."""
        key = (site, rank, fill_D.tobytes())
        if key not in self._random:
            # The same subspaces at every site and length: their luck must not decide which looks most causal.
            rng = self._cell.rng(f"causal.random.{len(fill_D)}.{rank}")
            bases = [random_basis(rank, len(fill_D), rng) for _ in range(self._random_draws)]
            counts = [
                self.changed(site, lambda h_BLD, basis=basis: ablate(h_BLD, basis, fill_D), self.random_n)
                for basis in bases
            ]
            self._random[key] = np.stack(counts)
        return self._random[key]

    def _count(self, logits: FloatArray) -> Int:
        return (predictions(logits)[:, self._first :] == self._y[: len(logits)]).sum(axis=1)


@dataclass(frozen=True)
class Share:
    """A share of accuracy, in the data and in every resample, and on how many sequences it rests."""

    value: float
    draws: Float64
    n: int


@dataclass(frozen=True)
class Drops:
    """What an ablation takes, what a random one takes, and the difference."""

    drop: Share
    random_drop: Share
    effect: Share


class Effects:
    """Drops with their resamples: sequences, and random subspaces, drawn once so that all numbers are paired."""

    def __init__(self, cell: CellView, model: AblatedModel, draws: int, random_draws: int) -> None:
        self._model = model
        rng = cell.rng("causal.resamples")
        self._of_random = resampled_weights(random_draws, rng, draws)
        self._sequences = Resamples(model.n, rng, draws)

    def of(self, ablated: Int, random: Int) -> Drops:
        """From right positions after the ablation (n,) and after random ones (random_draws, random_n)."""
        model = self._model
        lost = (model.clean - ablated) / model.scored
        lost_at_random = (model.clean[: model.random_n] - random) / model.scored
        drop = Share(float(lost.mean()), self._sequences.means(lost), model.n)
        random_draws = (self._sequences.means(lost_at_random) * self._of_random).sum(axis=1)
        control = Share(float(lost_at_random.mean()), random_draws, model.random_n)
        effect = Share(drop.value - control.value, drop.draws - control.draws, model.random_n)
        return Drops(drop, control, effect)

    def readings(self, drops: Drops, at: Mapping[str, Coordinate], *, converged: bool = True) -> list[Reading]:
        """`drop`, `random_drop` and `effect` in percentage points."""
        return [
            estimate(metric, 100 * share.value, 100 * share.draws, at=at, n=share.n, exact=(0.0,), converged=sound)
            for metric, share, sound in (
                ("drop", drops.drop, converged),
                ("random_drop", drops.random_drop, True),
                ("effect", drops.effect, converged),
            )
        ]


def site_data(cell: CellView, labels: Labels, params: ProbeParams) -> tuple[SiteData, ...]:
    """Every site with its clean probe of the target."""
    probes = clean_probes(cell, labels, params, variable=cell.task.target)
    found = site_activations(cell, labels)
    return tuple(SiteData(site, train, test, probes[site]) for site, (train, test) in found.items())


def refit_readings(
    score: SiteScore, labels: Labels, resamples: Resamples, at: Mapping[str, Coordinate]
) -> list[Reading]:
    """`refit_accuracy` and `refit_skill` of a probe on changed activations."""
    if score.correct is None:
        reason = score.reason or "undefined"
        return [undefined(metric, reason, at=at) for metric in ("refit_accuracy", "refit_skill")]
    shares = np.stack([score.correct, labels.guessed]) / labels.scored
    means, draws = shares.mean(axis=1), resamples.means(shares)
    skilled, skill_draws = skill(means[0], means[1]), skill(draws[:, 0], draws[:, 1])
    n, converged = resamples.n, score.converged
    return [
        estimate("refit_accuracy", float(means[0]), draws[:, 0], at=at, n=n, converged=converged),
        estimate("refit_skill", float(skilled), skill_draws, at=at, n=n, converged=converged, missing="chance_is_one"),
    ]


def ruler_basis(
    cell: CellView, ruler: Ruler, site: SiteData, labels: Labels, params: ProbeParams
) -> tuple[Float64, bool]:
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
    scale = "per_feature" if ruler == "probe_per_feature" else "site"
    probe = clean_probes(cell, labels, params, variable=cell.task.target, scale=scale)[site.name].probe
    assert probe is not None
    return span(probe.directions), probe.converged
