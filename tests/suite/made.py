"""Results with given numbers, as claims and comparisons read them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from layerstate.suite.spec.results import Metric, Result, SuiteRecord

TASK: dict[str, Any] = {"lengths": {"train": 8, "evaluate": [8, 12, 16]}, "target": "parity"}
SITES = ["embed", "block.0", "block.1"]


def metric(name: str, value: float | str | None, spread: float | None = None, /, **more: Any) -> Metric:
    """A metric whose interval reaches `spread` to both sides; other fields by name, coordinates as `at`."""
    ends = {"low": value - spread, "high": value + spread} if isinstance(value, float) and spread is not None else {}
    fields: dict[str, Any] = {"at": {}, "unit": "pp", "direction": "none", **ends, **more}
    return Metric(metric=name, value=value, **fields)


def result(
    protocol: str, *metrics: Metric, model: str = "gru", task: str = "dyck", seed: int = 0, **arrays: np.ndarray
) -> Result:
    cell = SimpleNamespace(model=model, task=task, seed=seed)
    packed = {
        name.replace("_", "/"): SimpleNamespace(unpack=lambda array=array: array) for name, array in arrays.items()
    }
    specs = {"task": TASK, "protocol": {"params": {}}}
    made = SimpleNamespace(cell=cell, protocol=protocol, metrics=list(metrics), specs=specs, sites=SITES, arrays=packed)
    return cast(Result, made)


def record(models: Sequence[str] = ("gru", "lstm", "mamba"), tasks: Sequence[str] = ("dyck",)) -> SuiteRecord:
    names = ("behaviour", "probe_profile", "causal", "grouping")
    protocols = {name: {"measures": name, "params": {}} for name in names}
    made = SimpleNamespace(
        identity="0" * 24,
        suite={"name": "quick"},
        models={name: {} for name in models},
        tasks=dict.fromkeys(tasks, TASK),
        protocols=protocols,
    )
    return cast(SuiteRecord, made)
