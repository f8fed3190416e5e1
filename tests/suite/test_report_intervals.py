"""The report's intervals over seeds cover what they say, also with few seeds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from layerstate.suite.runner.aggregate import COLUMNS, summarise
from layerstate.suite.spec.results import Metric, Result

GAP = next(column for column in COLUMNS if column.metric == "gap")
TASK: dict[str, Any] = {"lengths": {"train": 8}, "target": "parity"}


def seeds_with(values: np.ndarray) -> list[Result]:
    at: dict[str, str | int] = {"ruler": "means", "fill": "mean"}
    metrics = [Metric(metric="gap", at=at, value=float(value), unit="sites", direction="none") for value in values]
    return [cast(Result, SimpleNamespace(metrics=[metric])) for metric in metrics]


def test_intervals_over_five_seeds_cover_the_truth_in_nine_of_ten_cases() -> None:
    """Plain percentiles of five seeds cover in about 84 % of cases."""
    rng = np.random.default_rng(7)
    found = [summarise(GAP, seeds_with(rng.normal(0.0, 1.0, 5)), TASK) for _ in range(400)]
    covered = [summary.low <= 0.0 <= summary.high for summary in found if summary.low is not None]
    assert len(covered) == 400
    assert 0.90 <= float(np.mean(covered)) <= 0.97
