"""Simulated results of the protocols that erase, patch and remove: real metrics and coordinates, made-up numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from layerstate.suite.spec.results import Metric

MECHANISM_UNITS: dict[str, dict[str, str]] = {
    "necessity": {
        "curve_refit_accuracy": "share",
        "curve_task_accuracy": "share",
        "curve_random_accuracy": "share",
        "rank": "directions",
        "effect": "pp",
        "verdict": "word",
        "single_direction_verdict": "word",
    },
    "patching": {"recovery": "share", "pairs_left_out": "pairs"},
    "conv1d_attribution": {"posthoc_effect": "pp", "retrain_effect": "pp"},
    "ood_ablation": {"drop": "pp", "random_drop": "pp"},
    "subspace": {"effect": "pp", "refit_accuracy": "share"},
    "grouping": {"grouping": "share"},
}
"""Protocol to metric to unit."""
MECHANISMS = tuple(MECHANISM_UNITS)
HEADLINE = {"ruler": "means", "fill": "mean"}


def mechanism(cell: Any, protocol: str) -> list[Metric]:
    """What the protocol says of a simulated cell."""
    makers = {
        "necessity": _necessity,
        "patching": _patching,
        "conv1d_attribution": _attribution,
        "ood_ablation": _ood_ablation,
        "subspace": _subspace,
        "grouping": _grouping,
    }
    return makers[protocol](cell)


def _reading(
    protocol: str, name: str, value: float | str | None, margin: float | None = None, reason: str = "", **at: Any
) -> Metric:
    numeric = isinstance(value, float) and margin is not None
    return Metric(
        metric=name,
        at=at,
        value=value,
        low=value - margin if numeric else None,
        high=value + margin if numeric else None,
        n=200,
        unit=MECHANISM_UNITS[protocol][name],
        direction="none",
        status="undefined" if value is None else "ok",
        reason=reason or None,
    )


def _necessity(cell: Any) -> list[Metric]:
    """The state leaves the probe over four steps; the task follows it from the causal site on."""
    found: list[Metric] = []
    step = {"parity": 1, "s3": 5}.get(cell.task, 10)
    for index, site in enumerate(cell.sites):
        if index == 0 and cell.model.used >= 0:
            continue
        for method, steps in (("inlp", 5), ("leace", 2)):
            for number in range(steps):
                share = number / (steps - 1)
                used = cell.model.used >= 0 and index >= cell.model.used
                stuck = index == len(cell.sites) - 1 and cell.model.name == "mamba"
                refit = 0.99 - (0.99 - cell.chance - 0.01) * share * (0.4 if stuck else 1.0)
                task = cell.accuracy - (cell.accuracy - cell.chance) * (share if used else 0.02 * share)
                at: dict[str, Any] = {"site": site, "method": method, "rank": number * step}
                found += [
                    _reading("necessity", "curve_refit_accuracy", refit, 0.02, **at),
                    _reading("necessity", "curve_task_accuracy", task, 0.02, **at),
                    _reading("necessity", "curve_random_accuracy", cell.accuracy - 0.01 * number, 0.01, **at),
                ]
            word = "not_erased" if stuck else "necessary" if used else "not_necessary"
            found.append(_reading("necessity", "verdict", word, site=site, method=method))
            found.append(_reading("necessity", "effect", 40.0 if used else 1.0, 2.0, site=site, method=method))
        for ruler, word in (("probe", "not_necessary"), ("means", "necessary")):
            found.append(_reading("necessity", "single_direction_verdict", word, site=site, ruler=ruler))
    return found


def _patching(cell: Any) -> list[Metric]:
    found: list[Metric] = []
    last = len(cell.sites) - 1
    for index, site in enumerate(cell.sites):
        own = 1 / (1 + np.exp(-(index - cell.model.rise * last) / 0.5))
        shown = {
            "self": 1.0 if index == last else float(own),
            "downstream": float(0.9 * (1 - own)) if index < last else 0.0,
        }
        for read, value in shown.items():
            at: dict[str, Any] = {"site": site, "read": read} | ({"trivial": "true"} if index == last else {})
            found.append(_reading("patching", "recovery", value, 0.03, **at))
    return [*found, _reading("patching", "pairs_left_out", 3.0)]


def _attribution(cell: Any) -> list[Metric]:
    """Only the Mamba family has the component."""
    found: list[Metric] = []
    for length in cell.lengths:
        if not cell.model.type.startswith("mamba"):
            found.append(_reading("conv1d_attribution", "retrain_effect", None, reason="no_component", length=length))
            continue
        size = {"s3": -12.6, "parity": -6.8}.get(cell.task, 4.0) + 0.4 * cell.seed - length / 40
        found.append(_reading("conv1d_attribution", "retrain_effect", size, 1.5, length=length))
        for mode, share in (("bypass", 2.0), ("current_tap", 1.4)):
            found.append(_reading("conv1d_attribution", "posthoc_effect", share * size, 1.5, mode=mode, length=length))
    return found


def _ood_ablation(cell: Any) -> list[Metric]:
    found: list[Metric] = []
    for index, site in enumerate(cell.sites):
        for length in cell.lengths:
            at: dict[str, Any] = HEADLINE | {"site": site, "length": length}
            drop = 100 * (cell.accuracy - cell.chance) * float(np.exp(-abs(index - max(0, cell.model.used)) / 1.4))
            if cell.model.name == "zero" and length != cell.train:
                found.append(_reading("ood_ablation", "drop", None, reason="clean_at_chance", **at))
                continue
            found.append(_reading("ood_ablation", "drop", drop * cell.train / length, 2.0, **at))
            found.append(_reading("ood_ablation", "random_drop", 0.6, 0.4, **at))
    return found


def _subspace(cell: Any) -> list[Metric]:
    found: list[Metric] = []
    for index, site in enumerate(cell.sites):
        for basis, share in (("pca", 0.6), ("class_means", 1.0)):
            for k in (1, 2, 4, 8, 16):
                effect = share * 50 * (1 - 2 ** (-k / 2)) * (0.4 + 0.15 * index)
                found.append(_reading("subspace", "effect", effect, 2.0, site=site, basis=basis, k=k))
                found.append(_reading("subspace", "refit_accuracy", 0.9, 0.02, site=site, basis=basis, k=k))
    return found


def _grouping(cell: Any) -> list[Metric]:
    if cell.task != "s3":
        return [_reading("grouping", "grouping", None, reason="measured on s3")]
    return [_reading("grouping", "grouping", 0.2 - 0.1 * cell.model.rise, 0.05)]
