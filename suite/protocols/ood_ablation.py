"""Whether the directions that hold the state at the training length are still the ones in use at other lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from ...adapters.base import AdapterError
from ..measure.statistics import Resamples, percentile_interval
from ..spec.results import Coordinate
from . import causal
from .ablating import AblatedModel, Effects, Share, ruler_basis, site_data
from .base import CellView, Outcome, Reading
from .causal import Ablation
from .probing import ProbeParams, labels_of
from .readings import estimate, undefined

__all__ = ["MECHANISTIC", "VERSION", "Params", "measure"]

VERSION = 1
MECHANISTIC = True

Int = NDArray[np.int64]
Float64 = NDArray[np.float64]
METRICS = ("drop", "random_drop", "effect")


class Params(ProbeParams):
    """Parameters of `ood_ablation`."""

    at_all_lengths: ClassVar[bool] = True
    ablations: Annotated[list[Ablation], AfterValidator(causal.without_repeats)] = Field(
        default_factory=lambda: list(causal.Params().ablations), min_length=1
    )
    """The rulers to measure with; those of `causal`."""
    random_draws: int = Field(default=8, ge=8, le=1000)
    """Random subspaces of the same rank and fill, for the control; the same at all lengths."""
    random_sequences: int | None = Field(default=None, ge=2)
    """Sequences of `evaluate` that the control is measured on: so many of the first, or all."""
    clean_at_chance: float = Field(default=0.05, ge=0.0, le=1.0)
    """The clean skill at a length below which there is nothing to take away there."""


@dataclass(frozen=True)
class _Cut:
    """What one ruler takes out at one site, fitted at the training length; or the reason why there is nothing."""

    site: str
    ablation: Ablation
    basis_KD: Float64
    fill_D: Float64
    converged: bool
    reason: str | None = None

    @property
    def at(self) -> Mapping[str, Coordinate]:
        return {"site": self.site, "ruler": self.ablation.ruler, "fill": self.ablation.fill}


Effect = Share | str
"""What an ablation does beyond a random one; or the reason why that is not defined."""


def measure(cell: CellView, params: Params) -> Outcome:
    """Drop, matched random drop and effect at every length, of directions fitted at the training length."""
    outcome, cuts = Outcome(), _cuts(cell, params)
    # Lengths outermost: the activations of two lengths never have to be held at once.
    by_length = {length: _measure_length(cell, params, cuts, length, outcome) for length in cell.spec.lengths.evaluate}
    for index, cut in enumerate(cuts):
        effects = {length: found[index] for length, found in by_length.items()}
        outcome.readings += _summaries(cut, effects, cell.spec.lengths.train)
    return outcome


def _cuts(cell: CellView, params: Params) -> list[_Cut]:
    """The directions and fills of every ruler at every site, the sites of a ruler together."""
    labels = labels_of(cell, cell.task.target, params)
    sites = site_data(cell, labels, params)
    cuts: list[_Cut] = []
    for ablation in params.ablations:
        for site in sites:
            basis_KD, converged, reason = np.zeros((0, site.train.shape[-1])), True, site.score.reason
            if reason is None:
                basis_KD, converged = ruler_basis(cell, ablation.ruler, site, labels, params)
                reason = None if len(basis_KD) else "no_direction"
            cuts.append(_Cut(site.name, ablation, basis_KD, site.fill(ablation.fill), converged, reason))
    return cuts


def _measure_length(cell: CellView, params: Params, cuts: list[_Cut], length: int, outcome: Outcome) -> list[Effect]:
    """The effect of every cut at one length, all readings and counts of the length added to the outcome."""
    try:
        model = AblatedModel(
            cell,
            first=params.min_position,
            random_draws=params.random_draws,
            random_sequences=params.random_sequences,
            length=length,
        )
    except AdapterError as error:
        if length == cell.spec.lengths.train:
            raise
        reason = f"length_not_taken: {error}"
        outcome.readings.append(undefined("clean_accuracy", reason, at={"length": length}))
        return _unmeasured(cuts, length, reason, outcome)
    clean_skill = _clean(cell, params, model, outcome)
    # Written so that a skill which is not defined, where the position tells all, counts as none.
    if not clean_skill >= params.clean_at_chance:
        return _unmeasured(cuts, length, "clean_at_chance", outcome)
    effects = Effects(cell, model, params.draws, params.random_draws)
    found = [_measure_cut(model, effects, cut, outcome) for cut in cuts]
    for ablation in params.ablations:
        rows = [counts for cut, (_, *counts) in zip(cuts, found, strict=True) if cut.ablation == ablation]
        for name, counts in zip(("correct", "random"), zip(*rows, strict=True), strict=True):
            outcome.arrays[f"{name}/{ablation.ruler}/{ablation.fill}/{length}"] = np.stack(counts)
    return [effect for effect, *_ in found]


def _clean(cell: CellView, params: Params, model: AblatedModel, outcome: Outcome) -> float:
    """Skill without any ablation, over the best guess that sees the position alone; accuracy and counts added."""
    length = model.length
    outcome.arrays[f"correct/clean/{length}"] = model.clean
    outcome.arrays[f"chance/{length}"] = model.guessed()
    shares = model.clean / model.scored
    resamples = Resamples(model.n, cell.rng(f"ood_ablation.resamples.{length}"), params.draws)
    at, value = {"length": length}, float(shares.mean())
    outcome.readings.append(estimate("clean_accuracy", value, resamples.means(shares), at=at, n=model.n))
    return model.clean_skill()


def _measure_cut(model: AblatedModel, effects: Effects, cut: _Cut, outcome: Outcome) -> tuple[Effect, Int, Int]:
    """The effect of one cut at one length, and the counts a sequence behind it; −1 where nothing was measured."""
    at = {**cut.at, "length": model.length}
    if cut.reason is not None:
        outcome.readings += [undefined(metric, cut.reason, at=at) for metric in METRICS]
        correct, random = (np.full(size, -1, np.int64) for size in (model.n, model.random_n))
        return cut.reason, correct, random
    ablated = model.ablated(cut.site, cut.basis_KD, cut.fill_D)
    random = model.random(cut.site, len(cut.basis_KD), cut.fill_D)
    drops = effects.of(ablated, random)
    outcome.readings += effects.readings(drops, at, converged=cut.converged)
    return drops.effect, ablated, random.sum(axis=0)


def _unmeasured(cuts: list[_Cut], length: int, reason: str, outcome: Outcome) -> list[Effect]:
    """No effect of any cut at one length, for a reason that has nothing to do with the cut."""
    for cut in cuts:
        outcome.readings += [undefined(metric, reason, at={**cut.at, "length": length}) for metric in METRICS]
    return [reason] * len(cuts)


def _summaries(cut: _Cut, effects: Mapping[int, Effect], train: int) -> list[Reading]:
    """The mean effect of one cut beyond the training length, and what share it is of the effect there."""
    at, longer = cut.at, {length: effect for length, effect in effects.items() if length > train}
    shares = [effect for effect in longer.values() if isinstance(effect, Share)]
    missing = {length: effect for length, effect in longer.items() if isinstance(effect, str)}
    if not shares:
        reason = "; ".join(dict.fromkeys(missing.values())) or "no_length_beyond_training"
        return [undefined(metric, reason, at=at) for metric in ("ood_effect", "ood_effect_share")]
    n = min(share.n for share in shares)
    mean = Share(
        float(np.mean([share.value for share in shares])), np.mean([share.draws for share in shares], axis=0), n
    )
    readings = [
        estimate("ood_effect", 100 * mean.value, 100 * mean.draws, at=at, n=n, exact=(0.0,), converged=cut.converged),
        _share_of(effects[train], mean, cut),
    ]
    return [_without(missing, reading) for reading in readings]


def _share_of(at_train: Effect, mean: Share, cut: _Cut) -> Reading:
    metric, at = "ood_effect_share", cut.at
    if isinstance(at_train, str):
        return undefined(metric, at_train, at=at)
    if not percentile_interval(at_train.draws, at_train.value, units=at_train.n, exact=(0.0,)).above_zero:
        return undefined(metric, "no_effect_at_training_length", at=at)
    draws = mean.draws / np.where(at_train.draws > 0, at_train.draws, np.nan)
    n = min(mean.n, at_train.n)
    return estimate(metric, mean.value / at_train.value, draws, at=at, n=n, converged=cut.converged)


def _without(missing: Mapping[int, str], reading: Reading) -> Reading:
    """A mean over fewer lengths than the task has says which are not in it."""
    if not missing or reading.reason is not None:
        return reading
    left_out = ", ".join(f"{length} ({reason.split(':')[0]})" for length, reason in missing.items())
    return replace(reading, reason=f"without {left_out}")
