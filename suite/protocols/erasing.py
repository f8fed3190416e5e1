"""What protocols that erase a variable share: parameters, the steps of an erasure, and whether it got there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..measure.chance import skill
from ..measure.erasure import inlp, leace, one_hot
from .ablating import Change, Fill, SiteData
from .probing import Labels, ProbeParams, SiteScore

__all__ = ["ErasingParams", "Erasure", "Method", "Stage", "at_chance", "erase", "nothing_to_erase"]

Int = NDArray[np.int64]
Float64 = NDArray[np.float64]
Method = Literal["inlp", "leace"]


class ErasingParams(ProbeParams):
    """When a variable counts as readable and as erased, and how far to go."""

    max_rank: int = Field(default=64, ge=1)
    """Most directions that INLP erases."""
    chance_within: float = Field(default=0.02, ge=0.0, le=1.0)
    """A variable is erased where a fresh probe's accuracy is at most this far above chance."""
    unreadable_below: float = Field(default=0.05, ge=0.0, le=1.0)
    """Where the clean probe's skill is below this, there is nothing to erase."""
    fill: Fill = "mean"
    """What stands in place of the directions that INLP and the rulers take; LEACE keeps the mean by itself."""


@dataclass(frozen=True)
class Stage:
    """What is erased by now, and what can still be read.

    Attributes
    ----------
    rank : int
        Directions erased.
    change : callable
        Activations to what is left of them.
    score : SiteScore
        A fresh probe, fitted and scored on what is left.
    converged : bool
        Whether every probe whose directions are erased converged.
    """

    rank: int
    change: Change
    score: SiteScore
    converged: bool = True


@dataclass(frozen=True)
class Erasure:
    """An erasure at one site.

    Attributes
    ----------
    stages : list of Stage
        From nothing erased to everything that the method erases.
    erased : bool
        Whether no fresh probe reads the variable at the last stage.
    fill : float64 array (D,)
        What random subspaces are filled with for comparison.
    """

    stages: list[Stage]
    erased: bool
    fill: Float64

    @property
    def last(self) -> Stage:
        """What is left in the end."""
        return self.stages[-1]


def nothing_to_erase(score: SiteScore, labels: Labels, params: ErasingParams) -> str | None:
    """Why a variable can't be erased where its clean probe says `score`; None where it can."""
    if score.correct is None:
        return score.reason or "undefined"
    accuracy, chance = _shares(score.correct, labels)
    skilled = float(skill(np.array(accuracy), np.array(chance)))
    if np.isnan(skilled):
        return "chance_is_one"
    # Where chance is high, a skill above the threshold can still be within reach of it.
    return "unreadable" if skilled < params.unreadable_below or at_chance(score.correct, labels, params) else None


def at_chance(correct: Int | None, labels: Labels, params: ErasingParams) -> bool:
    """Whether a probe with so many right positions a test sequence reads no more than the position tells."""
    if correct is None:
        return False
    accuracy, chance = _shares(correct, labels)
    return accuracy - chance <= params.chance_within + 1e-12


def erase(site: SiteData, clean: SiteScore, labels: Labels, method: Method, params: ErasingParams) -> Erasure:
    """Erase a variable at a site, as far as the method goes.

    Parameters
    ----------
    site : SiteData
    clean : SiteScore
        The variable's clean probe there, one that reads it.
    labels : Labels
        The variable.
    method : {"inlp", "leace"}
    params : ErasingParams
    """
    if method == "inlp":
        return _by_inlp(site, clean, labels, params)
    change = leace(site.train, one_hot(labels.train))
    score = site.refit_after(change, labels, params.settings("site"))
    stages = [_nothing_erased(clean), Stage(change.rank, change, score)]
    return Erasure(stages, at_chance(score.correct, labels, params), site.fill("mean"))


def _by_inlp(site: SiteData, clean: SiteScore, labels: Labels, params: ErasingParams) -> Erasure:
    fill_D, settings = site.fill(params.fill), params.settings("site")
    steps = inlp(site.train, labels.train, settings, fill_D, max_rank=params.max_rank, first=clean.probe)
    next(steps)  # nothing erased: the clean probe, which is scored
    stages, erased = [_nothing_erased(clean)], False
    for step in steps:
        correct = (step.probe.predict(step.erase(site.test)) == labels.test).sum(axis=1)
        converged = stages[-1].converged and stages[-1].score.converged
        stages.append(Stage(step.erase.rank, step.erase, SiteScore(step.probe, correct), converged))
        erased = at_chance(correct, labels, params)
        if erased:
            break
    return Erasure(stages, erased, fill_D)


def _nothing_erased(clean: SiteScore) -> Stage:
    return Stage(0, lambda h: h, clean)


def _shares(correct: Int, labels: Labels) -> tuple[float, float]:
    """Accuracy and chance on `probe_test`."""
    return float(correct.mean()) / labels.scored, float(labels.guessed.mean()) / labels.scored
