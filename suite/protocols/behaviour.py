"""What the model does at every length: token, final and sequence accuracy and skill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...adapters.base import AdapterError
from ..measure.chance import majority_by_position, skill
from ..measure.scoring import predictions
from ..measure.statistics import Resamples
from . import base
from .base import CellView, Outcome, Reading
from .readings import estimate, undefined

__all__ = ["MECHANISTIC", "VERSION", "Params", "measure"]

VERSION = 1
MECHANISTIC = False

Int = NDArray[np.int64]
Float64 = NDArray[np.float64]
AT_LENGTH = (
    *("accuracy", "skill", "final_accuracy", "final_skill", "sequence_accuracy", "sequence_skill"),
    *("chance", "retention"),
)


class Params(base.ScoredParams):
    """Parameters of `behaviour`."""

    at_all_lengths: ClassVar[bool] = True
    draws: int = Field(default=2000, ge=100, le=100_000)
    """Bootstrap resamples of whole sequences."""
    clean_at_chance: float = Field(default=0.05, ge=0.0, le=1.0)
    """The skill at the training length below which nothing can be retained."""


@dataclass(frozen=True)
class _Scores:
    """One kind of score in the data (share, chance) and in every resample."""

    value: float
    chance: float
    draws: Float64
    chance_draws: Float64

    @property
    def skill(self) -> float:
        return float(skill(np.array(self.value), np.array(self.chance)))

    @property
    def skill_draws(self) -> Float64:
        return skill(self.draws, self.chance_draws)


def measure(cell: CellView, params: Params) -> Outcome:
    """Accuracy and skill on `evaluate` at every length, retention and out-of-distribution skill.

    A length that the model does not take has none of them, and leaves it without out-of-distribution skill.

    Chance is the majority class at each position, estimated on `probe_train` at the same length.
    """
    outcome = Outcome()
    train_length = cell.spec.lengths.train
    skills: dict[int, _Scores] = {}
    refused: dict[int, str] = {}
    for length in cell.spec.lengths.evaluate:
        try:
            skills[length] = _measure_length(cell, params, length, outcome)
        except AdapterError as error:
            if length == train_length:
                raise
            refused[length] = f"length_not_taken: {error}"
            outcome.readings += [undefined(metric, refused[length], at={"length": length}) for metric in AT_LENGTH]
    n = cell.spec.sizes.evaluate
    for length in skills:
        if length != train_length:
            outcome.readings.append(_retention(skills[length], skills[train_length], length, n, params))
    # A mean over the lengths that a model takes would favour the one that takes fewer.
    longest = [reason for length, reason in refused.items() if length > train_length]
    outcome.readings.append(
        undefined("ood_skill", longest[0], at={})
        if longest
        else _ood_skill([skills[length] for length in skills if length > train_length], n)
    )
    return outcome


def _measure_length(cell: CellView, params: Params, length: int, outcome: Outcome) -> _Scores:
    target, first = cell.task.target, params.min_position
    y_BL = cell.data("evaluate", length).states[target][:, first:]
    if not y_BL.shape[1]:
        raise ValueError(f"min_position {first} leaves no position of a sequence of length {length}")
    right_BL = predictions(cell.logits("evaluate", length))[:, first:] == y_BL
    majority_L = majority_by_position(cell.data("probe_train", length).states[target], cell.task.classes[target])
    guessed_BL = majority_L[first:] == y_BL
    resamples = Resamples(len(y_BL), cell.rng(f"behaviour.resamples.{length}"), params.draws)
    token = _scores(right_BL.mean(axis=1), guessed_BL.mean(axis=1), resamples)
    final = _scores(right_BL[:, -1], guessed_BL[:, -1], resamples)
    sequence = _scores(right_BL.all(axis=1), guessed_BL.all(axis=1), resamples)
    at, n = {"length": length}, len(y_BL)
    for prefix, scores in (("", token), ("final_", final), ("sequence_", sequence)):
        outcome.readings.append(estimate(f"{prefix}accuracy", scores.value, scores.draws, at=at, n=n))
        outcome.readings.append(
            estimate(f"{prefix}skill", scores.skill, scores.skill_draws, at=at, n=n, missing="chance_is_one")
        )
    outcome.readings.append(estimate("chance", token.chance, token.chance_draws, at=at, n=n))
    outcome.arrays[f"correct/{length}"] = right_BL.sum(axis=1)
    outcome.arrays[f"final/{length}"] = right_BL[:, -1].astype(np.int64)
    outcome.arrays[f"chance/{length}"] = guessed_BL.sum(axis=1)
    return token


def _scores(right_B: NDArray[Any], guessed_B: NDArray[Any], resamples: Resamples) -> _Scores:
    shares = np.stack([right_B, guessed_B]).astype(np.float64)
    value, chance = shares.mean(axis=1)
    draws = resamples.means(shares)
    return _Scores(float(value), float(chance), draws[:, 0], draws[:, 1])


def _retention(at_length: _Scores, at_train: _Scores, length: int, n: int, params: Params) -> Reading:
    at = {"length": length}
    if not at_train.skill >= params.clean_at_chance:
        return undefined("retention", "clean_at_chance", at=at)
    train_draws = np.where(at_train.skill_draws > 0, at_train.skill_draws, np.nan)
    draws = at_length.skill_draws / train_draws
    return estimate("retention", at_length.skill / at_train.skill, draws, at=at, n=n, missing="chance_is_one")


def _ood_skill(longer: list[_Scores], n: int) -> Reading:
    if not longer:
        return undefined("ood_skill", "no_length_beyond_training", at={})
    value = float(np.mean([scores.skill for scores in longer]))
    draws = np.mean([scores.skill_draws for scores in longer], axis=0)
    return estimate("ood_skill", value, draws, at={}, n=n, missing="chance_is_one")
