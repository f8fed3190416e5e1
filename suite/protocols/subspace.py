"""How many directions it takes: ablate the k principal directions of a site, or of its class means, for several k."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from ..measure.principal import class_mean_singular_directions, principal_directions, variance_share
from ..measure.statistics import Resamples
from ..spec.results import Coordinate
from .ablating import AblatedModel, Effects, Fill, SiteData, refit_readings, site_data
from .base import CellView, Outcome, Reading
from .probing import Labels, ProbeParams, labels_of
from .readings import estimate, undefined

__all__ = ["BASES", "MECHANISTIC", "VERSION", "Params", "measure"]

VERSION = 1
MECHANISTIC = True

Int = NDArray[np.int64]
Float64 = NDArray[np.float64]
BASES = ("pca", "class_means")
METRICS = ("accuracy", "drop", "random_drop", "effect", "refit_accuracy", "refit_skill", "variance_share")


def _positive_and_different(ks: list[int]) -> list[int]:
    if min(ks) < 1:
        raise ValueError(f"{min(ks)} directions can't be ablated; 1 or more")
    if len(set(ks)) < len(ks):
        raise ValueError(f"{ks} names a number of directions twice; each once")
    return ks


class Params(ProbeParams):
    """Parameters of `subspace`."""

    ks: Annotated[list[int], AfterValidator(_positive_and_different)] = Field(
        default_factory=lambda: [1, 2, 4, 8, 16], min_length=1
    )
    """How many directions are ablated, the largest first."""
    fill: Fill = "mean"
    """What stands in their place: the site's mean activation, or zero."""
    random_draws: int = Field(default=8, ge=8, le=1000)
    """Random subspaces of the same rank and fill, for the control."""
    random_sequences: int | None = Field(default=None, ge=2)
    """Sequences of `evaluate` that the control is measured on: so many of the first, or all."""


@dataclass(frozen=True)
class _Bench:
    """Everything that the subspaces of one cell have in common."""

    params: Params
    labels: Labels
    sites: tuple[SiteData, ...]
    model: AblatedModel
    effects: Effects
    evaluate: Resamples
    test: Resamples
    outcome: Outcome = field(default_factory=Outcome)


def measure(cell: CellView, params: Params) -> Outcome:
    """Task accuracy, matched random control and refitted probe after ablating k directions, at every site."""
    bench = _set_up(cell, params)
    bench.outcome.arrays["correct/clean"] = bench.model.clean
    bench.outcome.arrays["chance/refit"] = bench.labels.guessed
    for basis in BASES:
        found = [_directions(basis, site, bench.labels) for site in bench.sites]
        for k in params.ks:
            _measure_subspaces(bench, basis, k, found)
    return bench.outcome


def _set_up(cell: CellView, params: Params) -> _Bench:
    labels = labels_of(cell, cell.task.target, params)
    model = AblatedModel(
        cell, first=params.min_position, random_draws=params.random_draws, random_sequences=params.random_sequences
    )
    return _Bench(
        params,
        labels,
        site_data(cell, labels, params),
        model,
        Effects(cell, model, params.draws, params.random_draws),
        Resamples(model.n, cell.rng("subspace.resamples"), params.draws),
        Resamples(len(labels.test), cell.rng("probe.resamples"), params.draws),
    )


def _directions(basis: str, site: SiteData, labels: Labels) -> Float64:
    """All directions of a basis at one site, the largest first; none where the site can't be measured at all."""
    if site.score.reason is not None:
        return np.zeros((0, site.train.shape[-1]))
    if basis == "pca":
        return principal_directions(site.train)
    return class_mean_singular_directions(site.train, labels.train)


def _measure_subspaces(bench: _Bench, basis: str, k: int, directions: list[Float64]) -> None:
    """All readings of k directions of one basis, and the counts of all sites behind them."""
    rows = [_measure_site(bench, basis, k, *each) for each in zip(bench.sites, directions, strict=True)]
    for index, name in enumerate(("correct", "random", "refit")):
        bench.outcome.arrays[f"{name}/{basis}/{k}"] = np.stack([row[index] for row in rows])


def _measure_site(bench: _Bench, basis: str, k: int, site: SiteData, all_KD: Float64) -> tuple[Int, Int, Int]:
    """Counts a sequence (correct, summed over random draws, refit), −1 where nothing was measured; readings added."""
    params, model, readings = bench.params, bench.model, bench.outcome.readings
    at: dict[str, Coordinate] = {"site": site.name, "basis": basis, "k": k}
    reason = site.score.reason or _too_many(basis, k, *all_KD.shape)
    if reason is not None:
        return _unmeasured(bench, at, reason)
    basis_KD, fill_D = all_KD[:k], site.fill(params.fill)
    ablated = model.ablated(site.name, basis_KD, fill_D)
    random = model.random(site.name, k, fill_D)
    shares = ablated / model.scored
    readings.append(estimate("accuracy", float(shares.mean()), bench.evaluate.means(shares), at=at, n=model.n))
    readings += bench.effects.readings(bench.effects.of(ablated, random), at)
    refit = site.refit(basis_KD, fill_D, bench.labels, params.settings("site"))
    readings += refit_readings(refit, bench.labels, bench.test, at)
    readings.append(Reading("variance_share", variance_share(site.train, basis_KD), dict(at)))
    counts = np.full(bench.test.n, -1, np.int64) if refit.correct is None else refit.correct
    return ablated, random.sum(axis=0), counts


def _too_many(basis: str, k: int, found: int, width: int) -> str | None:
    """Why k of the directions found can't be ablated; None if they can."""
    if not found:
        return "no_direction"
    if k >= width:
        return f"rank_exceeded: {k} directions of a width of {width} leave nothing"
    if k > found:
        return f"rank_exceeded: {basis} has {found} here"
    return None


def _unmeasured(bench: _Bench, at: Mapping[str, Coordinate], reason: str) -> tuple[Int, Int, Int]:
    bench.outcome.readings += [undefined(metric, reason, at=at) for metric in METRICS]
    correct, random, refit = (
        np.full(size, -1, np.int64) for size in (bench.model.n, bench.model.random_n, bench.test.n)
    )
    return correct, random, refit
