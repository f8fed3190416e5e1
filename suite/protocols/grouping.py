"""Which of two other tasks a task goes with, by where along its depth the model makes the state readable.

Shape suffixes: S sites, R resamples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ..measure.chance import skill
from ..measure.statistics import Resamples
from ..spec.results import Coordinate
from .base import CellView, Outcome, Reading, Relation
from .probing import ProbeParams, clean_probes, labels_of
from .readings import estimate, undefined

__all__ = ["MECHANISTIC", "VERSION", "Params", "measure", "relations"]

VERSION = 1
MECHANISTIC = True

Float64 = NDArray[np.float64]


class Params(ProbeParams):
    """Parameters of `grouping`."""

    focus: str = Field(default="s3", min_length=1)
    """The task that is compared, and whose cells are measured."""
    near: str = Field(default="parity", min_length=1)
    """The task that it goes with where the result is positive."""
    far: str = Field(default="dyck", min_length=1)
    """The task that it goes with where the result is negative."""
    unreadable_below: float = Field(default=0.05, ge=0.0, le=1.0)
    """A profile whose largest skill is below this has no shape."""

    @model_validator(mode="after")
    def _three_tasks(self) -> Params:
        if len({self.focus, self.near, self.far}) < 3:
            raise ValueError(f"focus {self.focus}, near {self.near} and far {self.far} must be three different tasks")
        return self


def relations(task: str, params: Params) -> Mapping[str, Relation]:
    """On the focus task the same model on the two others; nothing elsewhere."""
    return {"near": Relation(task=params.near), "far": Relation(task=params.far)} if task == params.focus else {}


@dataclass(frozen=True)
class _Profile:
    """Skill by site as a share of the largest, in the data and in every resample, on n sequences."""

    share_S: Float64
    draws_RS: Float64
    n: int
    converged: bool


@dataclass(frozen=True)
class _Distance:
    """Between two profiles, in the data and in every resample."""

    value: float
    draws: Float64
    n: int
    converged: bool


def measure(cell: CellView, params: Params) -> Outcome:
    """Distances of the focus task's profile from the two others, and their difference."""
    outcome = Outcome()
    pairs = {role: f"{params.focus}-{name}" for role, name in (("near", params.near), ("far", params.far))}
    distances: dict[str, _Distance | str] = dict.fromkeys(pairs, f"measured on {params.focus}")
    if cell.spec.name == params.focus:
        own = _profile(cell, cell, params, params.focus, "focus", outcome)
        for role, name in (("near", params.near), ("far", params.far)):
            distances[role] = _distance(own, _related_profile(cell, params, role, name, outcome))
    for role, found in distances.items():
        outcome.readings.append(_reading("distance", found, {"pair": pairs[role]}, exact=(0.0, 1.0)))
    outcome.readings.append(_reading("grouping", _difference(distances["far"], distances["near"]), {}, exact=(0.0,)))
    return outcome


def _related_profile(cell: CellView, params: Params, role: str, name: str, outcome: Outcome) -> _Profile | str:
    """The same model's profile on another task, or the reason why it is not used."""
    related = cell.related(role)
    if related.view is None:
        return related.reason or f"no_cell: {name}"
    if not related.passed:
        return f"below_gate: {related.reason or name}"
    if tuple(related.view.adapter.sites) != tuple(cell.adapter.sites):
        return f"sites_differ: {len(related.view.adapter.sites)} on {name}, {len(cell.adapter.sites)} on {params.focus}"
    return _profile(cell, related.view, params, name, role, outcome)


def _profile(cell: CellView, on: CellView, params: Params, name: str, role: str, outcome: Outcome) -> _Profile | str:
    """The profile of the target of the cell `on`; counts added. `cell` draws the resamples, apart for each role."""
    labels = labels_of(on, on.task.target, params)
    probes = clean_probes(on, labels, params, variable=on.task.target)
    unfitted = next((score.reason for score in probes.values() if score.correct is None), None)
    counts = [score.correct for score in probes.values() if score.correct is not None]
    if unfitted is not None or not counts:
        return f"{unfitted or 'no_site'}: {name}"
    outcome.arrays[f"correct/{name}"], outcome.arrays[f"chance/{name}"] = np.stack(counts), labels.guessed
    shares = np.stack([labels.guessed, *counts]) / labels.scored
    resamples = Resamples(shares.shape[1], cell.rng(f"grouping.resamples.{role}"), params.draws)
    means, draws = shares.mean(axis=1), resamples.means(shares)
    skill_S, skill_RS = skill(means[1:], means[:1]), skill(draws[:, 1:], draws[:, :1])
    if not np.isfinite(skill_S).all():
        return f"chance_is_one: {name}"
    if float(skill_S.max()) < params.unreadable_below:
        return f"unreadable: {name}"
    converged = all(score.converged for score in probes.values())
    return _Profile(_normalised(skill_S), _normalised(skill_RS), resamples.n, converged)


def _normalised(skill_S: Float64) -> Float64:
    """Skill (…, S) divided by the largest; NaN where no site has any."""
    largest = skill_S.max(axis=-1, keepdims=True)
    return skill_S / np.where(largest > 0, largest, np.nan)


def _distance(a: _Profile | str, b: _Profile | str) -> _Distance | str:
    """Mean absolute difference over sites; or the first reason why there is none."""
    if isinstance(a, str):
        return a
    if isinstance(b, str):
        return b
    value = float(np.abs(a.share_S - b.share_S).mean())
    draws = np.abs(a.draws_RS - b.draws_RS).mean(axis=1)
    return _Distance(value, draws, min(a.n, b.n), a.converged and b.converged)


def _difference(far: _Distance | str, near: _Distance | str) -> _Distance | str:
    reasons = dict.fromkeys(reason for reason in (far, near) if isinstance(reason, str))
    if isinstance(far, str) or isinstance(near, str):
        return "; ".join(reasons)
    converged = far.converged and near.converged
    return _Distance(far.value - near.value, far.draws - near.draws, min(far.n, near.n), converged)


def _reading(metric: str, found: _Distance | str, at: Mapping[str, Coordinate], exact: tuple[float, ...]) -> Reading:
    if isinstance(found, str):
        return undefined(metric, found, at=at)
    return estimate(metric, found.value, found.draws, at=at, n=found.n, exact=exact, converged=found.converged)
