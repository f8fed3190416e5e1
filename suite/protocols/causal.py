"""Where the state is used: ablate the directions that hold it, one site at a time, and look at the model's output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from ..measure import summaries
from ..measure.chance import skill
from ..measure.statistics import Resamples, percentile_interval
from ..spec.results import Coordinate
from . import base
from .ablating import AblatedModel, Effects, Fill, Ruler, Share, SiteData, refit_readings, ruler_basis, site_data
from .base import CellView, Outcome, Reading
from .probing import Labels, ProbeParams, labels_of
from .readings import estimate, undefined, word

__all__ = ["MECHANISTIC", "VERSION", "Ablation", "Params", "measure", "without_repeats"]

VERSION = 2
MECHANISTIC = True

Int = NDArray[np.int64]
Float64 = NDArray[np.float64]
T = TypeVar("T")
SITE_METRICS = ("drop", "random_drop", "effect", "refit_accuracy", "refit_skill")
GAP_METRICS = ("causal_site", "causal_site_index", "gap", "gap_share")


class Ablation(base.Params):
    """Which directions are ablated, and what stands in their place."""

    ruler: Ruler
    """`means`: differences of class means; `probe`: the probe's weights; `probe_per_feature`: with scaled features."""
    fill: Fill
    """The site's mean activation, or zero."""


def _standard_ablations() -> list[Ablation]:
    return [
        Ablation(ruler="means", fill="mean"),
        Ablation(ruler="probe", fill="zero"),
        Ablation(ruler="probe_per_feature", fill="zero"),
    ]


def without_repeats(ablations: list[Ablation]) -> list[Ablation]:
    """The list, if no ablation stands in it twice."""
    for index, ablation in enumerate(ablations):
        if ablation in ablations[:index]:
            raise ValueError(f"{ablation.ruler} with fill {ablation.fill} stands twice; each pair once")
    return ablations


class Params(ProbeParams):
    """Parameters of `causal`."""

    ablations: Annotated[list[Ablation], AfterValidator(without_repeats)] = Field(
        default_factory=_standard_ablations, min_length=1
    )
    """The rulers to measure with."""
    random_draws: int = Field(default=8, ge=8, le=1000)
    """Random subspaces of the same rank and fill, for the control."""
    random_sequences: int | None = Field(default=None, ge=2)
    """Sequences of `evaluate` that the control is measured on: so many of the first, or all."""
    causal_within: float = Field(default=0.005, ge=0.0, le=1.0)
    """Sites whose effect is this close to the largest one, as a share of accuracy, count as tied with it."""
    held_from: float = Field(default=0.5, ge=0.0, le=1.0)
    """A causal site's clean probe has at least this share of the largest skill; 0 lets every site be one."""
    unreadable_below: float = Field(default=0.05, ge=0.0, le=1.0)
    """And at least this skill: elsewhere a ruler's directions are noise."""
    clean_at_chance: float = Field(default=0.05, ge=0.0, le=1.0)
    """A model whose skill without any ablation is below this uses no state, wherever it holds one; 0 asks for none."""


@dataclass(frozen=True)
class _Effect:
    """What an ablation at one site does beyond a random one, and whether its probe converged."""

    share: Share
    converged: bool

    @property
    def value(self) -> float:
        return self.share.value

    @property
    def draws(self) -> Float64:
        return self.share.draws


@dataclass(frozen=True)
class _Bench:
    """Everything that the rulers of one cell have in common."""

    cell: CellView
    params: Params
    labels: Labels
    sites: tuple[SiteData, ...]
    model: AblatedModel
    effects: Effects
    test: Resamples
    outcome: Outcome = field(default_factory=Outcome)


def measure(cell: CellView, params: Params) -> Outcome:
    """Drop, matched random drop, effect and refitted probe at every site and ruler; causal site and gap."""
    bench = _set_up(cell, params)
    bench.outcome.arrays["correct/clean"] = bench.model.clean
    bench.outcome.arrays["chance/refit"] = bench.labels.guessed
    for ablation in params.ablations:
        _measure_ablation(bench, ablation)
    return bench.outcome


def _set_up(cell: CellView, params: Params) -> _Bench:
    labels = labels_of(cell, cell.task.target, params)
    model = AblatedModel(
        cell, first=params.min_position, random_draws=params.random_draws, random_sequences=params.random_sequences
    )
    return _Bench(
        cell,
        params,
        labels,
        site_data(cell, labels, params),
        model,
        Effects(cell, model, params.draws, params.random_draws),
        Resamples(len(labels.test), cell.rng("probe.resamples"), params.draws),
    )


def _measure_ablation(bench: _Bench, ablation: Ablation) -> None:
    """All readings of one ruler and fill."""
    rows = [_measure_site(bench, ablation, site) for site in bench.sites]
    key = f"{ablation.ruler}/{ablation.fill}"
    for name, index in (("correct", 0), ("random", 1), ("refit", 2)):
        bench.outcome.arrays[f"{name}/{key}"] = np.stack([row.counts[index] for row in rows])
    bench.outcome.readings += _gap_readings(bench, ablation, [row.effect for row in rows])


@dataclass(frozen=True)
class _SiteRow:
    """Counts (correct, summed over random draws, refit), −1 where nothing was measured, and the effect."""

    counts: tuple[Int, Int, Int]
    effect: _Effect | None


def _measure_site(bench: _Bench, ablation: Ablation, site: SiteData) -> _SiteRow:
    params, model = bench.params, bench.model
    at = {"site": site.name, "ruler": ablation.ruler, "fill": ablation.fill}
    if site.score.reason is not None:
        return _unmeasured(bench, at, site.score.reason)
    basis_KD, converged = ruler_basis(bench.cell, ablation.ruler, site, bench.labels, params)
    rank = len(basis_KD)
    bench.outcome.readings.append(Reading("rank", float(rank), dict(at)))
    if rank == 0:
        return _unmeasured(bench, at, "no_direction")
    fill_D = site.fill(ablation.fill)
    ablated = model.ablated(site.name, basis_KD, fill_D)
    random = model.random(site.name, rank, fill_D)
    drops = bench.effects.of(ablated, random)
    bench.outcome.readings += bench.effects.readings(drops, at, converged=converged)
    refit = site.refit(basis_KD, fill_D, bench.labels, params.settings("site"))
    bench.outcome.readings += refit_readings(refit, bench.labels, bench.test, at)
    counts = np.full(bench.test.n, -1, np.int64) if refit.correct is None else refit.correct
    return _SiteRow((ablated, random.sum(axis=0), counts), _Effect(drops.effect, converged))


def _unmeasured(bench: _Bench, at: Mapping[str, Coordinate], reason: str) -> _SiteRow:
    bench.outcome.readings += [undefined(metric, reason, at=at) for metric in SITE_METRICS]
    sizes = (bench.model.n, bench.model.random_n, bench.test.n)
    correct, random, refit = (np.full(size, -1, np.int64) for size in sizes)
    return _SiteRow((correct, random, refit), None)


def _gap_readings(bench: _Bench, ablation: Ablation, effects: list[_Effect | None]) -> list[Reading]:
    """The causal site of one ruler, and how far the best site is from it."""
    at: dict[str, Coordinate] = {"ruler": ablation.ruler, "fill": ablation.fill}
    profile = _clean_profile(bench)
    held_S = _holding(profile.skill, bench.params)
    found = [effect for effect, held in zip(effects, held_S, strict=True) if effect is not None and held]
    depth = len(bench.sites) - 1
    if depth < 1:
        return [undefined(metric, "no_block", at=at) for metric in GAP_METRICS]
    if bench.model.is_at_chance(bench.params.clean_at_chance):
        return [undefined(metric, "clean_at_chance", at=at) for metric in GAP_METRICS]
    largest = max(found, key=lambda effect: effect.value, default=None)
    if not _above_zero(largest, bench.model.random_n):
        return [undefined(metric, "no_causal_site", at=at) for metric in GAP_METRICS]
    # A site within reach of a small largest effect may have none of its own; it is not a place that is used.
    causal_S = [
        held and _above_zero(effect, bench.model.random_n) for effect, held in zip(effects, held_S, strict=True)
    ]
    never = np.full(bench.params.draws, -np.inf)
    values_S = _by_site(effects, causal_S, lambda effect: effect.value, np.nan)
    draws_BS = np.stack(_by_site(effects, causal_S, lambda effect: effect.draws, never), axis=1)
    causal, causal_draws = (summaries.best_site(v, bench.params.causal_within) for v in (np.array(values_S), draws_BS))
    best, best_draws = (summaries.best_site(v, bench.params.best_within) for v in (profile.accuracy, profile.draws))
    converged = profile.converged and all(effect.converged for effect in found)
    n = min(bench.model.random_n, bench.test.n)
    readings = [word("causal_site", bench.sites[int(causal)].name, at=at, n=n, converged=converged)]
    for metric, value, draws in (
        ("causal_site_index", float(causal), causal_draws.astype(np.float64)),
        ("gap", float(best - causal), (best_draws - causal_draws).astype(np.float64)),
        ("gap_share", float(best - causal) / depth, (best_draws - causal_draws) / depth),
    ):
        readings.append(estimate(metric, value, draws, at=at, n=n, exact=(value,), converged=converged))
    return readings


@dataclass(frozen=True)
class _CleanProfile:
    """The clean probes over all sites; −inf at sites where none was fitted."""

    accuracy: Float64
    draws: Float64
    skill: Float64
    converged: bool


def _clean_profile(bench: _Bench) -> _CleanProfile:
    guessed = bench.labels.guessed
    counts = [guessed if site.score.correct is None else site.score.correct for site in bench.sites]
    shares = np.stack([*counts, guessed]) / bench.labels.scored
    means, draws = shares.mean(axis=1), bench.test.means(shares)
    missing = np.array([site.score.correct is None for site in bench.sites])
    accuracy = np.where(missing, -np.inf, means[:-1])
    skills = np.where(missing, -np.inf, np.nan_to_num(skill(means[:-1], means[-1]), nan=-np.inf))
    converged = all(site.score.converged for site in bench.sites)
    return _CleanProfile(accuracy, np.where(missing, -np.inf, draws[:, :-1]), skills, converged)


def _holding(skill_S: Float64, params: Params) -> list[bool]:
    """Which sites hold the state well enough for a ruler to mean it.

    Where the state is not, the class means still differ by chance, along whatever varies most: the token itself at
    ``embed``. Taking that out breaks the model, and says nothing of where the state is.
    """
    if params.held_from == 0:
        return [True] * len(skill_S)
    least = max(params.unreadable_below, params.held_from * float(skill_S.max()))
    return [bool(score >= least) for score in skill_S]


def _by_site(effects: list[_Effect | None], counts_S: list[bool], of: Callable[[_Effect], T], otherwise: T) -> list[T]:
    pairs = zip(effects, counts_S, strict=True)
    return [of(effect) if effect is not None and counts else otherwise for effect, counts in pairs]


def _above_zero(effect: _Effect | None, n: int) -> bool:
    return effect is not None and percentile_interval(effect.draws, effect.value, units=n, exact=(0.0,)).above_zero
