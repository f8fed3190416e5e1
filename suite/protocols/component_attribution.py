"""What a component contributes: take it out of the trained model, and train the same model without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from ...adapters.base import AdapterError, EditNeverFired, FloatArray
from ..measure.scoring import predictions
from ..measure.statistics import Resamples
from ..spec.results import Coordinate
from . import base
from .base import CellView, Outcome, Related, Relation
from .readings import estimate, undefined

__all__ = ["MECHANISTIC", "VERSION", "Params", "measure", "relations"]

VERSION = 1
MECHANISTIC = True

Int = NDArray[np.int64]
Counts = Int | str
"""Right positions a sequence (n,), or the reason why there are none."""
TWIN = "without"
"""The relation: the same model, trained without the component."""


def _without_repeats(modes: list[str]) -> list[str]:
    for index, mode in enumerate(modes):
        if mode in modes[:index]:
            raise ValueError(f"the mode {mode} stands twice; each once")
    return modes


class Params(base.ScoredParams):
    """Parameters of `component_attribution`."""

    at_all_lengths: ClassVar[bool] = True
    component: str = Field(min_length=1)
    """The part that is taken out, as the adapter declares it: `conv1d`, `attention`, `mlp`, `mixer` …"""
    retrain: bool = False
    """Whether the same model is also trained without the component."""
    retrain_mode: str = "zero"
    """The ablation that it is trained under."""
    posthoc: Annotated[list[str], AfterValidator(_without_repeats)] = Field(default_factory=lambda: ["zero"])
    """The ablations of the trained model."""
    draws: int = Field(default=2000, ge=100, le=100_000)
    """Bootstrap resamples of whole sequences."""

    @model_validator(mode="after")
    def _something_to_measure(self) -> Params:
        if not self.retrain and not self.posthoc:
            raise ValueError("neither retrain nor a posthoc mode: nothing would be measured; give at least one")
        return self


def relations(task: str, params: Params) -> Mapping[str, Relation]:  # noqa: ARG001 (the same on every task)
    """The same model on the same task, trained without the component, where that is asked for."""
    return {TWIN: Relation(without=(params.component, params.retrain_mode))} if params.retrain else {}


@dataclass
class _Length:
    """One evaluation length: the clean model's right positions a sequence, and where everything goes."""

    cell: CellView
    params: Params
    length: int
    outcome: Outcome
    clean: Int = field(init=False)

    def __post_init__(self) -> None:
        self.clean = self.count(self.cell.logits("evaluate", self.length))
        self.outcome.arrays[f"correct/clean/{self.length}"] = self.clean

    @property
    def y_BL(self) -> Int:
        return self.cell.data("evaluate", self.length).states[self.cell.task.target][:, self.params.min_position :]

    def count(self, logits: FloatArray) -> Int:
        """Right positions a sequence (n,)."""
        y_BL = self.y_BL
        if not y_BL.shape[1]:
            first = self.params.min_position
            raise ValueError(f"min_position {first} leaves no position of a sequence of length {self.length}")
        return (predictions(logits)[:, self.params.min_position :] == y_BL).sum(axis=1)

    def add(self, kind: str, counts: Counts, mode: str | None = None) -> None:
        """Accuracy without the component and its difference to the clean one, paired by sequence."""
        at: dict[str, Coordinate] = {} if mode is None else {"mode": mode}
        at["length"] = self.length
        if isinstance(counts, str):
            self.outcome.readings += [undefined(f"{kind}_{what}", counts, at=at) for what in ("effect", "accuracy")]
            return
        key = (kind, *([] if mode is None else [mode]), str(self.length))
        self.outcome.arrays["correct/" + "/".join(key)] = counts
        # The same resamples for all modes of a length.
        rng = self.cell.rng(f"component_attribution.resamples.{self.length}")
        shares = np.stack([counts, counts - self.clean]) / self.y_BL.shape[1]
        draws, n = Resamples(len(counts), rng, self.params.draws).means(shares), len(counts)
        accuracy, effect = (float(mean) for mean in shares.mean(axis=1))
        self.outcome.readings += [
            estimate(f"{kind}_effect", 100 * effect, 100 * draws[:, 1], at=at, n=n, exact=(0.0,)),
            estimate(f"{kind}_accuracy", accuracy, draws[:, 0], at=at, n=n),
        ]


def measure(cell: CellView, params: Params) -> Outcome:
    """Effect of removing the component, after training and from the start of it, at every length."""
    outcome = Outcome()
    missing = {mode: _undeclared(cell, params.component, mode) for mode in (*params.posthoc, params.retrain_mode)}
    twin = _twin(cell, params, missing[params.retrain_mode])
    for length in cell.spec.lengths.evaluate:
        try:
            here = _Length(cell, params, length, outcome)
        except AdapterError as error:
            if length == cell.spec.lengths.train:
                raise
            _unmeasured(params, length, f"length_not_taken: {error}", twin, outcome)
            continue
        for mode in params.posthoc:
            here.add("posthoc", missing[mode] or _posthoc(here, mode), mode)
        here.add("retrain", twin if isinstance(twin, str) else _retrained(here, twin))
    return outcome


def _undeclared(cell: CellView, component: str, mode: str) -> str | None:
    """The reason why the model has no such ablation, or None."""
    declared = cell.adapter.components
    if component not in declared:
        return f"no_component: the model declares {', '.join(declared) or 'none'}"
    if mode not in declared[component]:
        return f"no_mode: the model declares {component} with {', '.join(declared[component]) or 'none'}"
    return None


def _twin(cell: CellView, params: Params, missing: str | None) -> CellView | str:
    """The model trained without the component, or the reason why it can't be compared.

    That it does not pass the gate is no reason: its failure is the effect.
    """
    if not params.retrain:
        return "not_retrained"
    if missing is not None:
        return missing
    related: Related = cell.related(TWIN)
    if related.view is None:
        return related.reason or "no_cell"
    if related.backend != cell.backend:
        return f"backends_differ: {cell.backend or 'unknown'}; without it {related.backend or 'unknown'}"
    return related.view


def _posthoc(here: _Length, mode: str) -> Counts:
    cell = here.cell
    try:
        with cell.adapter.ablate(here.params.component, mode):
            logits = cell.adapter.logits(cell.data("evaluate", here.length).tokens)
    except EditNeverFired as error:
        return f"never_fired: {error}"
    return here.count(logits)


def _retrained(here: _Length, twin: CellView) -> Counts:
    try:
        return here.count(twin.logits("evaluate", here.length))
    except AdapterError as error:
        return f"length_not_taken: {error}"


def _unmeasured(params: Params, length: int, reason: str, twin: CellView | str, outcome: Outcome) -> None:
    for metric in ("posthoc_effect", "posthoc_accuracy"):
        outcome.readings += [undefined(metric, reason, at={"mode": m, "length": length}) for m in params.posthoc]
    why = twin if isinstance(twin, str) else reason
    outcome.readings += [
        undefined(metric, why, at={"length": length}) for metric in ("retrain_effect", "retrain_accuracy")
    ]
