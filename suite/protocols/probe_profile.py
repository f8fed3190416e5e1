"""Where the state variables can be read linearly, beside an untrained model and permuted labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..measure import summaries
from ..measure.chance import skill
from ..measure.statistics import Resamples
from ..spec.results import Coordinate
from .base import CellView, Outcome, Reading
from .probing import (
    Labels,
    ProbeParams,
    SiteScore,
    clean_probes,
    labels_of,
    permuted,
    score_site,
    site_activations,
)
from .readings import estimate, undefined, word

__all__ = ["MECHANISTIC", "VERSION", "Params", "Profile", "measure"]

VERSION = 1
MECHANISTIC = True

Int = NDArray[np.int64]
Float64 = NDArray[np.float64]
SUMMARIES = (
    "best_site",
    "best_site_index",
    "argmax_site",
    "tie_set",
    "early_share",
    "late_share",
    "expected_site",
    "shape",
)


class Params(ProbeParams):
    """Parameters of `probe_profile`."""

    scale: Literal["site", "per_feature"] = "site"
    """What centred activations are divided by: one number a site, or each feature's own deviation."""
    unreadable_below: float = Field(default=0.05, ge=0.0, le=1.0)
    """The largest skill of a profile below which the state is not readable at all."""
    early_from: float = Field(default=0.8, ge=0.0, le=1.0)
    """The early share from which a profile is called early."""
    late_from: float = Field(default=0.5, ge=0.0, le=1.0)
    """The late share from which a profile is called late."""


@dataclass(frozen=True)
class Profile:
    """Accuracy and chance over the sites, in the data and in every resample.

    Attributes
    ----------
    accuracy : float64 array (S,)
    draws : float64 array (draws, S)
        The same in every resample.
    chance : float
    chance_draws : float64 array (draws,)
    converged : tuple of bool
        By site.
    """

    accuracy: Float64
    draws: Float64
    chance: float
    chance_draws: Float64
    converged: tuple[bool, ...]

    @property
    def skill(self) -> Float64:
        """Skill (S,)."""
        return skill(self.accuracy, np.array(self.chance))

    @property
    def skill_draws(self) -> Float64:
        """Skill (draws, S)."""
        return skill(self.draws, self.chance_draws[:, None])


def measure(cell: CellView, params: Params) -> Outcome:
    """Fit probes for every state variable at every site, trained, untrained and on permuted labels."""
    outcome = Outcome()
    n = len(cell.data("probe_test", cell.spec.lengths.train))
    resamples = Resamples(n, cell.rng("probe.resamples"), params.draws)
    for variable in cell.spec.states:
        true, shuffled = labels_of(cell, variable, params), permuted(cell, variable, params)
        outcome.arrays[f"chance/{variable}"] = true.guessed
        outcome.arrays["scored"] = np.full(n, true.scored, np.int64)
        profiles = {
            "trained": _profile(cell, variable, "trained", true, params, resamples, outcome),
            "untrained": _profile(cell, variable, "untrained", true, params, resamples, outcome),
            "shuffled": _profile(cell, variable, "shuffled", shuffled, params, resamples, outcome),
        }
        trained, untrained = profiles["trained"], profiles["untrained"]
        outcome.readings += _gains(cell.adapter.sites, variable, trained, untrained, n)
        outcome.readings += _summaries(cell.adapter.sites, variable, trained, untrained, n, params)
    return outcome


def _profile(
    cell: CellView,
    variable: str,
    control: str,
    labels: Labels,
    params: Params,
    resamples: Resamples,
    outcome: Outcome,
) -> Profile | str:
    """The profile, its readings added to the outcome; or the reason why there is none."""
    if control == "shuffled":
        settings = params.settings(params.scale)
        found = site_activations(cell, labels)
        scores = {site: score_site(train, test, labels, settings) for site, (train, test) in found.items()}
    else:
        trained = control == "trained"
        scores = dict(clean_probes(cell, labels, params, variable=variable, scale=params.scale, trained=trained))
    reasons = [score.reason for score in scores.values() if score.reason is not None]
    if reasons:
        for site, score in scores.items():
            at = {"site": site, "variable": variable, "control": control}
            reason = score.reason or f"another site: {reasons[0]}"
            outcome.readings += [undefined(metric, reason, at=at) for metric in ("accuracy", "skill", "chance")]
        return reasons[0]
    correct = _stacked(scores)
    outcome.arrays[f"correct/{control}/{variable}"] = correct
    profile = _profile_of(correct, labels, tuple(score.converged for score in scores.values()), resamples)
    for index, site in enumerate(scores):
        at = {"site": site, "variable": variable, "control": control}
        outcome.readings += _site_readings(profile, index, at, resamples.n)
    return profile


def _stacked(scores: dict[str, SiteScore]) -> Int:
    return np.stack([score.correct for score in scores.values() if score.correct is not None])


def _profile_of(correct_SB: Int, labels: Labels, converged: tuple[bool, ...], resamples: Resamples) -> Profile:
    shares = np.concatenate([correct_SB, labels.guessed[None]]) / labels.scored
    means, draws = shares.mean(axis=1), resamples.means(shares)
    return Profile(means[:-1], draws[:, :-1], float(means[-1]), draws[:, -1], converged)


def _site_readings(profile: Profile, index: int, at: Mapping[str, Coordinate], n: int) -> list[Reading]:
    converged = profile.converged[index]
    accuracy = estimate(
        "accuracy", float(profile.accuracy[index]), profile.draws[:, index], at=at, n=n, converged=converged
    )
    skilled = estimate(
        "skill",
        float(profile.skill[index]),
        profile.skill_draws[:, index],
        at=at,
        n=n,
        converged=converged,
        missing="chance_is_one",
    )
    return [accuracy, skilled, estimate("chance", profile.chance, profile.chance_draws, at=at, n=n)]


def _gains(
    sites: tuple[str, ...], variable: str, trained: Profile | str, untrained: Profile | str, n: int
) -> list[Reading]:
    readings: list[Reading] = []
    for index, site in enumerate(sites):
        at = {"site": site, "variable": variable}
        if isinstance(trained, str) or isinstance(untrained, str):
            reason = trained if isinstance(trained, str) else f"untrained: {untrained}"
            readings.append(undefined("trained_gain", reason, at=at))
            continue
        gain, draws = trained.skill - untrained.skill, trained.skill_draws - untrained.skill_draws
        converged = trained.converged[index] and untrained.converged[index]
        readings.append(
            estimate(
                "trained_gain",
                float(gain[index]),
                draws[:, index],
                at=at,
                n=n,
                converged=converged,
                missing="chance_is_one",
            )
        )
    return readings


def _summaries(
    sites: tuple[str, ...], variable: str, trained: Profile | str, untrained: Profile | str, n: int, params: Params
) -> list[Reading]:
    """Every summary on the trained skill, on the untrained skill, and on the difference of the two."""
    readings: list[Reading] = []
    for on, profile in (("skill", trained), ("untrained", untrained)):
        at = {"variable": variable, "on": on}
        if isinstance(profile, str):
            readings += [undefined(metric, profile, at=at) for metric in SUMMARIES]
        else:
            curves = (profile.accuracy, profile.draws, profile.skill, profile.skill_draws)
            readings += _summarise(sites, at, curves, all(profile.converged), n, params)
    at = {"variable": variable, "on": "trained_gain"}
    if isinstance(trained, str) or isinstance(untrained, str):
        reason = trained if isinstance(trained, str) else f"untrained: {untrained}"
        readings += [undefined(metric, reason, at=at) for metric in SUMMARIES]
    else:
        curves = (
            trained.accuracy - untrained.accuracy,
            trained.draws - untrained.draws,
            trained.skill - untrained.skill,
            trained.skill_draws - untrained.skill_draws,
        )
        readings += _summarise(sites, at, curves, all(trained.converged + untrained.converged), n, params)
    return readings


def _summarise(
    sites: tuple[str, ...],
    at: Mapping[str, Coordinate],
    curves: tuple[Float64, Float64, Float64, Float64],
    converged: bool,
    n: int,
    params: Params,
) -> list[Reading]:
    """All summaries of one curve: accuracy (S,), its draws, skill (S,), its draws."""
    accuracy, accuracy_draws, skills, skill_draws = curves
    if len(sites) < 2:
        return [undefined(metric, "no_block", at=at) for metric in SUMMARIES]
    if not np.isfinite(skills).all():
        return [undefined(metric, "chance_is_one", at=at) for metric in SUMMARIES]
    shape = summaries.shape(
        skills,
        unreadable_below=params.unreadable_below,
        early_from=params.early_from,
        late_from=params.late_from,
    )
    readings = [word("shape", shape, at=at, n=n, converged=converged)]
    if shape == "unreadable":
        # Where nothing can be read, the best of several sites is a coin flip and a share of nothing has no meaning.
        return readings + [undefined(metric, "unreadable", at=at) for metric in SUMMARIES if metric != "shape"]
    best = int(summaries.best_site(accuracy, params.best_within))
    ties = [site for site, tied in zip(sites, summaries.tie_set(accuracy, params.best_within), strict=True) if tied]
    readings += [
        word("best_site", sites[best], at=at, n=n, converged=converged),
        word("argmax_site", sites[int(accuracy.argmax())], at=at, n=n, converged=converged),
        word("tie_set", ", ".join(ties), at=at, n=n, converged=converged),
        estimate(
            "best_site_index",
            best,
            summaries.best_site(accuracy_draws, params.best_within).astype(np.float64),
            at=at,
            n=n,
            exact=(best,),
            converged=converged,
        ),
    ]
    for metric, summary in (
        ("early_share", summaries.early_share),
        ("late_share", summaries.late_share),
        ("expected_site", summaries.expected_site),
    ):
        value = float(summary(skills))
        readings.append(estimate(metric, value, summary(skill_draws), at=at, n=n, converged=converged))
    return readings
