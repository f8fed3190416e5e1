"""The report's intervals over seeds cover what they say, also with few seeds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from layerstate.suite.runner.aggregate import COLUMNS, summarise
from layerstate.suite.spec.results import Metric, Result

GAP = next(column for column in COLUMNS if column.metric == "gap")
TASK: dict[str, Any] = {"lengths": {"train": 8}, "target": "parity"}


def seeds_with(values: np.ndarray) -> list[Result]:
    at: dict[str, str | int] = {"ruler": "means", "fill": "mean"}
    metrics = [Metric(metric="gap", at=at, value=float(value), unit="sites", direction="none") for value in values]
    return [cast(Result, SimpleNamespace(metrics=[metric])) for metric in metrics]


@pytest.mark.parametrize("seeds", [2, 3, 4, 5, 10])
def test_intervals_over_few_seeds_cover_the_truth(seeds: int) -> None:
    """Plain percentiles of two seeds cover in half the cases, of five in about 84 %."""
    rng = np.random.default_rng(seeds)
    found = [summarise(GAP, seeds_with(rng.normal(0.0, 1.0, seeds)), TASK) for _ in range(1000)]
    covered = [summary.low <= 0.0 <= summary.high for summary in found if summary.low is not None]
    assert len(covered) == 1000
    assert 0.93 <= float(np.mean(covered)) <= 0.97


def test_seeds_that_are_all_alike_have_no_interval_and_the_reason() -> None:
    found = summarise(GAP, seeds_with(np.zeros(3)), TASK)
    assert (found.value, found.low, found.high) == (0.0, None, None)
    assert found.reason == "no interval: 3 seeds, all alike, show no spread"
