"""The numbers behind a claim: a metric of one model on one task, seed by seed, and its interval over them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..measure.statistics import Interval
from ..runner.seeds import over_seeds
from ..spec.results import Metric, Result, SuiteRecord
from ..spec.schema import Expectation
from .places import filled

__all__ = ["Evidence", "Results", "interval_over_seeds"]

Float64 = NDArray[np.float64]
_SEVERITY = ("ok", "below_gate", "not_converged", "undefined", "failed")


@dataclass(frozen=True)
class Evidence:
    """A metric over the seeds of one model on one task.

    Attributes
    ----------
    metrics : dict of int to Metric
        Usable ones by seed.
    status, reason
        Of the others: the worst, ``ok`` if there is none.
    below_gate : bool
        Whether cells below the gate are among the usable ones.
    """

    metrics: Mapping[int, Metric]
    status: str = "ok"
    reason: str | None = None
    below_gate: bool = False

    @property
    def values(self) -> list[float | str]:
        """By seed, in their order."""
        return [metric.value for _, metric in sorted(self.metrics.items()) if metric.value is not None]


class Results:
    """Results looked up by model, task, protocol and coordinates.

    Parameters
    ----------
    results : iterable of Result
        Of one suite.
    record : SuiteRecord
        It says which models and tasks there are.
    """

    def __init__(self, results: Iterable[Result], record: SuiteRecord) -> None:
        self.record = record
        self._found: dict[tuple[str, str, str], dict[int, Result]] = {}
        for result in results:
            key = (result.cell.model, result.cell.task, result.protocol)
            self._found.setdefault(key, {})[result.cell.seed] = result

    @property
    def models(self) -> list[str]:
        """Names of the suite's models."""
        return list(self.record.models)

    @property
    def tasks(self) -> list[str]:
        """Names of the suite's tasks."""
        return list(self.record.tasks)

    def evidence(
        self,
        metric: str,
        model: str,
        task: str,
        at: Mapping[str, str | int],
        *,
        expectation: Expectation | None = None,
        required_skill: float | None = None,
    ) -> Evidence:
        """What there is of `protocol.metric` at these coordinates, reduced over others if the expectation says so.

        Cells below the gate count only if their skill at the training length is at least `required_skill`.
        """
        protocol, _, name = metric.partition(".")
        by_seed = self._found.get((model, task, protocol), {})
        if not by_seed:
            return Evidence({}, "not_measured", f"{protocol} was not measured on {model} · {task}")
        usable: dict[int, Metric] = {}
        worst: tuple[str, str | None] = ("ok", None)
        lowered = False
        for seed, result in sorted(by_seed.items()):
            found = _matching(result, name, filled(at, result), expectation)
            reduced = _reduced(found, expectation)
            if isinstance(reduced, tuple):
                worst = reduced
            elif not reduced.is_converged:
                worst = ("not_converged", reduced.reason)
            elif reduced.status == "below_gate":
                skill = self._skill(model, task, seed)
                if required_skill is None or skill is None or skill < required_skill:
                    worst = ("below_gate", reduced.reason)
                    continue
                usable[seed], lowered = reduced, True
            elif reduced.status == "ok":
                usable[seed] = reduced
            else:
                worst = (reduced.status, reduced.reason)
        return Evidence(usable, *worst, below_gate=lowered)

    def _skill(self, model: str, task: str, seed: int) -> float | None:
        """Token skill at the training length."""
        result = self._found.get((model, task, "behaviour"), {}).get(seed)
        if result is None:
            return None
        place = {"length": result.specs["task"]["lengths"]["train"]}
        found = [metric.value for metric in result.metrics if metric.metric == "skill" and metric.at == place]
        return found[0] if found and isinstance(found[0], float) else None


def _matching(result: Result, name: str, at: Mapping[str, str | int], expectation: Expectation | None) -> list[Metric]:
    over = expectation.over if expectation is not None else None
    return [
        metric
        for metric in result.metrics
        if metric.metric == name and {k: v for k, v in metric.at.items() if k != over} == at
        if over is None or over in metric.at
    ]


def _reduced(found: Sequence[Metric], expectation: Expectation | None) -> Metric | tuple[str, str | None]:
    """One metric for a seed; or the status and reason why there is none."""
    if not found:
        return "undefined", "the protocol gave no such metric at these coordinates"
    if expectation is None or expectation.over is None:
        metric = found[0]
        return metric if metric.value is not None else (metric.status, metric.reason)
    valued = [metric for metric in found if metric.value is not None]
    if not valued:
        return found[0].status, found[0].reason
    # A number made of several is no sounder than the least sound of them.
    least = max(valued, key=lambda metric: (not metric.is_converged, _SEVERITY.index(metric.status)))
    status, reason = least.status, None if least.status == "ok" else least.reason
    if expectation.reduce in ("every", "some"):
        wanted = expectation.one_of or [str(expectation.equals)]
        right = [str(metric.value) in wanted for metric in valued]
        holds = all(right) if expectation.reduce == "every" else any(right)
        chosen = valued[right.index(holds)]
        return chosen.model_copy(update={"status": status, "reason": reason})
    numbers = [metric for metric in valued if isinstance(metric.value, float)]
    if not numbers:
        return "undefined", "words where numbers are compared"
    if expectation.reduce == "mean":
        return _mean(numbers).model_copy(update={"status": status, "reason": reason})
    return _extreme(numbers, largest=expectation.reduce == "max").model_copy(
        update={"status": status, "reason": reason}
    )


def _mean(metrics: Sequence[Metric]) -> Metric:
    """Of several places of one seed, which share their sequences: its interval reaches as far as theirs on average."""
    value, below, above = (
        float(np.mean(part))
        for part in zip(*((metric.number, metric.below, metric.above) for metric in metrics), strict=True)
    )
    low, high = (None, None) if math.isnan(below + above) else (value - below, value + above)
    return metrics[0].model_copy(update={"value": value, "low": low, "high": high})


def _extreme(metrics: Sequence[Metric], *, largest: bool) -> Metric:
    """The largest or smallest of several places; its interval reaches to the end of whichever goes furthest."""
    sign = 1.0 if largest else -1.0
    chosen = max(metrics, key=lambda metric: sign * metric.number)
    if chosen.low is None or chosen.high is None:
        return chosen
    if largest:
        return chosen.model_copy(update={"high": max(metric.high for metric in metrics if metric.high is not None)})
    return chosen.model_copy(update={"low": min(metric.low for metric in metrics if metric.low is not None)})


def interval_over_seeds(metrics: Sequence[Metric]) -> Interval:
    """One seed's own interval, over sequences; or over seeds and sequences, as far as so few seeds need."""
    if len(metrics) == 1:
        return Interval(metrics[0].low, metrics[0].high, None if metrics[0].low is not None else metrics[0].reason)
    return over_seeds(metrics)
