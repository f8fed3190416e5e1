"""Is the state needed where it can be read? Erase it until no probe finds it, then look at the model's output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from ..measure import summaries
from ..measure.erasure import Projection
from ..measure.statistics import Resamples, percentile_interval, resampled_weights
from ..spec.results import Coordinate
from .ablating import (
    AblatedModel,
    Drops,
    Effects,
    Ruler,
    SiteData,
    refit_readings,
    ruler_basis,
    site_data,
)
from .base import CellView, Outcome, Reading
from .erasing import ErasingParams, Erasure, Method, at_chance, erase, nothing_to_erase
from .probing import Labels, SiteScore, clean_probes, labels_of
from .readings import estimate, undefined, word

__all__ = ["MECHANISTIC", "VERSION", "Params", "Verdict", "measure", "verdict"]

VERSION = 2
MECHANISTIC = True

Int = NDArray[np.int64]
Float64 = NDArray[np.float64]
At = Mapping[str, Coordinate]
Verdict = Literal["necessary", "not_necessary", "not_erased", "inconclusive"]

ERASED_METRICS = ("erased_rank", "refit_accuracy", "refit_skill", "drop", "random_drop", "effect", "verdict")
SINGLE_METRICS = (
    "single_direction_is_enough",
    "single_direction_refit_accuracy",
    "single_direction_drop",
    "single_direction_effect",
    "single_direction_verdict",
)
OTHER_METRICS = ("other_drop", "other_refit_accuracy")


def _without_repeats(names: list[str]) -> list[str]:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ValueError(f"{name} stands twice; each once")
    return names


class Params(ErasingParams):
    """Parameters of `necessity`."""

    methods: Annotated[list[Method], AfterValidator(_without_repeats)] = Field(
        default_factory=lambda: ["inlp", "leace"], min_length=1
    )
    """How the state is erased: probe after probe (INLP), or in closed form (LEACE)."""
    sites: Literal["all", "best"] | Annotated[list[str], AfterValidator(_without_repeats), Field(min_length=1)] = "all"
    """Where: every site, the one that reads best, or those named."""
    least_effect: float = Field(default=0.05, gt=0.0, le=1.0)
    """The smallest effect, as a share of accuracy, that makes a state necessary."""
    clean_at_chance: float = Field(default=0.05, ge=0.0, le=1.0)
    """The skill without any ablation below which verdicts are inconclusive: nothing can be needed; 0 asks for none."""
    rulers: Annotated[list[Ruler], AfterValidator(_without_repeats)] = Field(default_factory=lambda: ["means", "probe"])
    """Whose directions alone are tried as well."""
    other_variables: bool = True
    """Whether each other state variable of the task is erased as a control."""
    random_draws: int = Field(default=8, ge=8, le=1000)
    """Random subspaces of the same rank, for the control."""
    random_sequences: int | None = Field(default=None, ge=2)
    """Sequences of `evaluate` that the control is measured on: so many of the first, or all."""


@dataclass(frozen=True)
class _Bench:
    """Everything that the sites of one cell have in common."""

    cell: CellView
    params: Params
    labels: Labels
    sites: tuple[SiteData, ...]
    model: AblatedModel
    effects: Effects
    test: Resamples
    sequences: Resamples
    subspaces: Float64
    room: float
    is_at_chance: bool
    outcome: Outcome = field(default_factory=Outcome)

    def verdict(self, drops: Drops, *, erased: bool) -> tuple[Verdict, str | None]:
        """The word for an erasure in this cell."""
        least = self.params.least_effect
        return verdict(drops, erased=erased, least_effect=least, room=self.room, is_at_chance=self.is_at_chance)

    def record(self, key: str, site: SiteData, counts: Int) -> None:
        """Counts of a site, in a row of their own among all sites; −1 stands where nothing was measured."""
        rows = self.outcome.arrays.setdefault(key, np.full((len(self.sites), len(counts)), -1, np.int64))
        rows[[each.name for each in self.sites].index(site.name)] = counts


def measure(cell: CellView, params: Params) -> Outcome:
    """Rank, refitted probe, drop, effect and verdict at every chosen site, with the curves that lead there."""
    bench = _set_up(cell, params)
    bench.outcome.arrays["correct/clean"] = bench.model.clean
    bench.outcome.arrays["chance/refit"] = bench.labels.guessed
    others = _other_labels(bench)
    if params.other_variables and not others:
        bench.outcome.readings += [undefined(metric, "no_other_variable", at={}) for metric in OTHER_METRICS]
    for name in _chosen(bench):
        site = next((each for each in bench.sites if each.name == name), None)
        if site is None:
            known = ", ".join(each.name for each in bench.sites)
            _leave_out(bench, name, others, f"no_site: there are {known}")
        else:
            _measure_site(bench, site, others)
    return bench.outcome


def verdict(
    drops: Drops, *, erased: bool, least_effect: float, room: float, is_at_chance: bool = False
) -> tuple[Verdict, str | None]:
    """The word for an erasure, and the reason where one is needed.

    Parameters
    ----------
    drops : Drops
        What the erasure takes beyond a random one.
    erased : bool
        Whether no fresh probe reads the state any more.
    least_effect : float
        The smallest effect that counts, as a share of accuracy.
    room : float
        How far the clean accuracy lies above chance. Where random subspaces of the same rank take so much of it that
        no effect of that size is left to be seen, a small one says nothing. Where it is itself less than such an
        effect, a larger one is output below chance.
    is_at_chance : bool
        Whether the model does no better than chance without any ablation: then it needs no state.
    """
    if not erased:
        return "not_erased", None
    if is_at_chance:
        return "inconclusive", "clean_at_chance"
    if room < least_effect:
        return "inconclusive", "no_room: the model is too near chance for such an effect"
    effect = drops.effect
    interval = percentile_interval(effect.draws, effect.value, units=effect.n, exact=(0.0,))
    if effect.value >= least_effect and interval.excludes_zero:
        return "necessary", None
    if room - drops.random_drop.value < least_effect:
        return "inconclusive", "no_room: random subspaces of this rank leave no effect to be seen"
    if interval.high is not None and interval.high < least_effect:
        return "not_necessary", None
    return "inconclusive", interval.reason


def _set_up(cell: CellView, params: Params) -> _Bench:
    labels = labels_of(cell, cell.task.target, params)
    model = AblatedModel(
        cell, first=params.min_position, random_draws=params.random_draws, random_sequences=params.random_sequences
    )
    rng = cell.rng("necessity.resamples")
    subspaces = resampled_weights(params.random_draws, rng, params.draws)
    return _Bench(
        cell,
        params,
        labels,
        site_data(cell, labels, params),
        model,
        Effects(cell, model, params.draws, params.random_draws),
        Resamples(len(labels.test), cell.rng("probe.resamples"), params.draws),
        Resamples(model.n, rng, params.draws),
        subspaces,
        float((model.clean - model.guessed()).mean()) / model.scored,
        model.is_at_chance(params.clean_at_chance),
    )


def _other_labels(bench: _Bench) -> Mapping[str, Labels]:
    """The labels of every state variable but the target."""
    target = bench.cell.task.target
    names = [name for name in bench.cell.spec.states if name != target] if bench.params.other_variables else []
    return {name: labels_of(bench.cell, name, bench.params) for name in names}


def _chosen(bench: _Bench) -> list[str]:
    if isinstance(bench.params.sites, list):
        return bench.params.sites
    if bench.params.sites == "all":
        return [site.name for site in bench.sites]
    counts = [site.score.correct for site in bench.sites]
    accuracy_S = np.array([-np.inf if correct is None else correct.mean() / bench.labels.scored for correct in counts])
    if np.isneginf(accuracy_S).all():
        return [bench.sites[0].name]
    return [bench.sites[int(summaries.best_site(accuracy_S, bench.params.best_within))].name]


def _leave_out(bench: _Bench, name: str, others: Mapping[str, Labels], reason: str) -> None:
    """Nothing can be measured at a site."""
    readings, params = bench.outcome.readings, bench.params
    for method in params.methods:
        readings += [undefined(metric, reason, at={"site": name, "method": method}) for metric in ERASED_METRICS]
        for other in others:
            at: At = {"site": name, "method": method, "variable": other}
            readings += [undefined(metric, reason, at=at) for metric in OTHER_METRICS]
    for ruler in params.rulers:
        at = _single(name, ruler, params)
        readings += [undefined(metric, reason, at=at) for metric in SINGLE_METRICS]
        readings += [undefined("verdict_reversed", reason, at={**at, "method": method}) for method in params.methods]


def _measure_site(bench: _Bench, site: SiteData, others: Mapping[str, Labels]) -> None:
    reason = nothing_to_erase(site.score, bench.labels, bench.params)
    if reason is not None:
        _leave_out(bench, site.name, others, reason)
        return
    verdicts: dict[Method, Reading] = {}
    for method in bench.params.methods:
        verdicts[method] = _measure_erasure(bench, site, method)
        for name, labels in others.items():
            _measure_other(bench, site, method, name, labels)
    for ruler in bench.params.rulers:
        _measure_single(bench, site, ruler, verdicts)


def _measure_erasure(bench: _Bench, site: SiteData, method: Method) -> Reading:
    """All readings of one erasure of the target: the curve, the last stage, and the verdict, which is returned."""
    at: At = {"site": site.name, "method": method}
    erasure = erase(site, site.score, bench.labels, method, bench.params)
    correct, random = _measure_curve(bench, site, erasure, at)
    last, readings = erasure.last, bench.outcome.readings
    drops = bench.effects.of(correct, random)
    readings.append(
        Reading("erased_rank", float(last.rank), dict(at))
        if erasure.erased
        else undefined("erased_rank", "not_erased", at=at)
    )
    readings += refit_readings(last.score, bench.labels, bench.test, at)
    readings += bench.effects.readings(drops, at, converged=erasure.last.converged)
    readings.append(said := _verdict_reading(bench, erasure, drops, at))
    for name, counts in (("correct", correct), ("random", random.sum(axis=0)), ("refit", last.score.correct)):
        if counts is not None:
            bench.record(f"{name}/{method}", site, counts)
    return said


def _verdict_reading(bench: _Bench, erasure: Erasure, drops: Drops, at: At) -> Reading:
    said, why = bench.verdict(drops, erased=erasure.erased)
    n = min(drops.effect.n, bench.test.n)
    if erasure.last.converged and erasure.last.score.converged:
        return Reading("verdict", said, dict(at), n=n, reason=why)
    return word("verdict", said, at=at, n=n, converged=False)


def _measure_curve(bench: _Bench, site: SiteData, erasure: Erasure, at: At) -> tuple[Int, Int]:
    """Readings after each step, the model's output after steps 1, 2, 4, … and the last; the last's counts."""
    model, readings, last = bench.model, bench.outcome.readings, len(erasure.stages) - 1
    correct, random = model.clean, np.tile(model.clean[: model.random_n], (bench.params.random_draws, 1))
    for step, stage in enumerate(erasure.stages):
        there = {**at, "rank": stage.rank}
        readings.append(_refit_reading(bench, "curve_refit_accuracy", stage.score, there))
        if step & (step - 1) and step != last:  # neither 0, a power of 2, nor the last
            continue
        if step:
            correct = model.changed(site.name, stage.change)
            random = model.random(site.name, stage.rank, erasure.fill)
        readings += _accuracy_readings(bench, correct, random, there, stage.converged)
    return correct, random


def _accuracy_readings(bench: _Bench, correct: Int, random: Int, at: At, converged: bool) -> list[Reading]:
    share, random_share = correct / bench.model.scored, random / bench.model.scored
    draws = bench.sequences.means(share)
    random_draws = (bench.sequences.means(random_share) * bench.subspaces).sum(axis=1)
    n, random_n = bench.model.n, bench.model.random_n
    return [
        estimate("curve_task_accuracy", float(share.mean()), draws, at=at, n=n, converged=converged),
        estimate("curve_random_accuracy", float(random_share.mean()), random_draws, at=at, n=random_n),
    ]


def _refit_reading(bench: _Bench, metric: str, score: SiteScore, at: At) -> Reading:
    """The target's accuracy as a fresh probe reads it."""
    if score.correct is None:
        return undefined(metric, score.reason or "undefined", at=at)
    share = score.correct / bench.labels.scored
    draws = bench.test.means(share)
    return estimate(metric, float(share.mean()), draws, at=at, n=bench.test.n, converged=score.converged)


def _measure_other(bench: _Bench, site: SiteData, method: Method, name: str, labels: Labels) -> None:
    """Erase another variable in the same way: what that does to the task, and to how the target reads."""
    params, readings = bench.params, bench.outcome.readings
    at: At = {"site": site.name, "method": method, "variable": name}
    clean = clean_probes(bench.cell, labels, params, variable=name)[site.name]
    reason = nothing_to_erase(clean, labels, params)
    erasure = erase(site, clean, labels, method, params) if reason is None else None
    if erasure is None or not erasure.erased:
        readings += [undefined(metric, reason or "not_erased", at=at) for metric in OTHER_METRICS]
        return
    model, last = bench.model, erasure.last
    lost = (model.clean - model.changed(site.name, last.change)) / model.scored
    drop, draws = 100 * float(lost.mean()), 100 * bench.sequences.means(lost)
    refit = site.refit_after(last.change, bench.labels, params.settings("site"))
    readings.append(
        estimate("other_drop", drop, draws, at=at, n=model.n, exact=(0.0,), converged=erasure.last.converged)
    )
    readings.append(_refit_reading(bench, "other_refit_accuracy", refit, at))


def _single(site: str, ruler: Ruler, params: Params) -> dict[str, Coordinate]:
    return {"site": site, "ruler": ruler, "fill": params.fill}


def _measure_single(bench: _Bench, site: SiteData, ruler: Ruler, verdicts: Mapping[Method, Reading]) -> None:
    """The directions of one ruler alone, as `causal` takes them out: is the state gone, and what does the drop say?"""
    params, model, at = bench.params, bench.model, _single(site.name, ruler, bench.params)
    basis_KD, converged = ruler_basis(bench.cell, ruler, site, bench.labels, params)
    if len(basis_KD) == 0:
        bench.outcome.readings += [undefined(metric, "no_direction", at=at) for metric in SINGLE_METRICS]
        bench.outcome.readings += [
            undefined("verdict_reversed", "no_direction", at={**at, "method": method}) for method in verdicts
        ]
        return
    fill_D = site.fill(params.fill)
    erase = Projection(basis_KD, fill_D)
    refit = site.refit_after(erase, bench.labels, params.settings("site"))
    correct = model.changed(site.name, erase)
    drops = bench.effects.of(correct, model.random(site.name, erase.rank, fill_D))
    enough = "yes" if at_chance(refit.correct, bench.labels, params) else "no"
    sound = converged and refit.converged
    bench.outcome.readings += [
        word("single_direction_is_enough", enough, at=at, n=bench.test.n, converged=sound),
        _refit_reading(bench, "single_direction_refit_accuracy", refit, at),
    ]
    said, why = bench.verdict(drops, erased=True)
    said = Reading("single_direction_verdict", said, dict(at), n=drops.effect.n, reason=why)
    if not converged:
        said = word("single_direction_verdict", str(said.value), at=at, n=said.n, converged=False)
    bench.outcome.readings += [said, *(_reversal(said, of, {**at, "method": m}) for m, of in verdicts.items())]
    for metric, share in (("single_direction_drop", drops.drop), ("single_direction_effect", drops.effect)):
        value, draws = 100 * share.value, 100 * share.draws
        bench.outcome.readings.append(
            estimate(metric, value, draws, at=at, n=share.n, exact=(0.0,), converged=converged)
        )
    for name, counts in (("correct", correct), ("refit", refit.correct)):
        if counts is not None:
            bench.record(f"{name}/single/{ruler}", site, counts)


def _reversal(single: Reading, erased: Reading, at: At) -> Reading:
    """Whether erasing the state tells the opposite of what ablating one ruler's directions tells."""
    told = ("necessary", "not_necessary")
    for reading in (single, erased):
        if reading.value not in told:
            return undefined("verdict_reversed", f"{reading.metric} is {reading.value}", at=at)
    sound = single.status == erased.status == "ok"
    n = None if single.n is None or erased.n is None else min(single.n, erased.n)
    return word("verdict_reversed", "yes" if single.value != erased.value else "no", at=at, n=n, converged=sound)
