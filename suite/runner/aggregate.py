"""One number for several seeds: the mean, with an interval that covers sequences and, with several seeds, seeds too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..measure.chance import skill
from ..measure.statistics import hierarchical_means, level_over_seeds, percentile_interval
from ..spec.results import Coordinate, Metric, Result, SuiteRecord

__all__ = ["COLUMNS", "NOT_MEASURED", "Column", "Summary", "extra_columns", "summarise"]

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """A metric over seeds.

    Attributes
    ----------
    value : float, str or None
        The mean, or the most frequent word; None where no seed has one.
    low, high : float or None
        The 95 % interval.
    n : int
        Seeds with a value.
    reason : str or None
        Why there is no value.
    """

    value: float | str | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    reason: str | None = None

    def plain(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Column:
    """A metric that the report shows.

    Attributes
    ----------
    key, title : str
        Its name in CSV and JSON, and over a column.
    protocol, metric : str
        Which metric.
    at : mapping
        Its coordinates; ``$train`` and ``$target`` stand for those of the task.
    is_word : bool
        Whether it is the name of a site rather than a number.
    digits : int
        Decimals shown.
    """

    key: str
    title: str
    protocol: str
    metric: str
    at: Mapping[str, Coordinate] = field(default_factory=dict[str, Coordinate])
    is_word: bool = False
    digits: int = 3

    def show(self, summary: Summary) -> str:
        """A summary for a table: a dash where there is none, 0 where it is 0."""
        if summary.value is None:
            return "–"
        if isinstance(summary.value, str):
            return summary.value
        text = f"{summary.value:.{self.digits}f}"
        if summary.low is None or summary.high is None or summary.n < 2:
            return text
        return f"{text} [{summary.low:.{self.digits}f}, {summary.high:.{self.digits}f}]"


NOT_MEASURED = "not measured"
_TARGET = {"variable": "$target", "on": "skill"}
_USABLE = ("ok", "below_gate", "not_converged")
_HEADLINE = {"ruler": "means", "fill": "mean"}
COLUMNS = [
    Column("accuracy", "accuracy", "behaviour", "accuracy", {"length": "$train"}),
    Column("ood_skill", "OOD skill", "behaviour", "ood_skill"),
    Column("best_site", "best site", "probe_profile", "best_site", _TARGET, is_word=True),
    Column("causal_site", "causal site", "causal", "causal_site", _HEADLINE, is_word=True),
    Column("gap", "gap", "causal", "gap", _HEADLINE, digits=2),
]
"""What the report shows of the standard protocols."""


def extra_columns(results: Sequence[Result], record: SuiteRecord) -> list[Column]:
    """A column for each metric without coordinates of the suite's other protocols.

    One that has no value in any result is left out if its protocol gave others: a control that no task here allows.
    """
    standard = {column.protocol for column in COLUMNS}
    wanted = {entry["identity"] for entry in record.measurements}
    found: dict[str, Column] = {}
    valued: set[str] = set()
    for result in results:
        if result.identity not in wanted or result.protocol in standard:
            continue
        for metric in result.metrics:
            key = f"{result.protocol}.{metric.metric}"
            if metric.value is not None:
                valued |= {result.protocol, *([] if metric.at else [key])}
            if not metric.at and (key not in found or metric.value is not None):
                found[key] = Column(key, key, result.protocol, metric.metric, {}, isinstance(metric.value, str))
    return [column for key, column in sorted(found.items()) if key in valued or column.protocol not in valued]


def summarise(column: Column, results: Sequence[Result], task: Mapping[str, Any]) -> Summary:
    """A metric over the seeds of one model on one task; below the gate it keeps its value."""
    places = {"$train": task["lengths"]["train"], "$target": task["target"]}
    at = {name: places.get(str(place), place) for name, place in column.at.items()}
    found = [metric for result in results if (metric := _find(result, column.metric, at)) is not None]
    usable = [metric for metric in found if metric.value is not None and metric.status in _USABLE]
    if not usable:
        reasons = Counter(metric.reason or metric.status for metric in found)
        return Summary(reason=reasons.most_common(1)[0][0] if reasons else NOT_MEASURED)
    if isinstance(usable[0].value, str):
        return _word([str(metric.value) for metric in usable])
    values = np.array([metric.value for metric in usable], np.float64)
    if len(usable) == 1:
        return Summary(float(values[0]), usable[0].low, usable[0].high, 1)
    draws = _draws(column, results, at) if len(usable) == len(results) else None
    if draws is None:
        draws = hierarchical_means([values[i : i + 1] for i in range(len(values))], _rng(), shared=False).mean(axis=1)
    level = level_over_seeds(len(values))
    interval = percentile_interval(draws, float(values.mean()), units=len(values), level=level)
    return Summary(float(values.mean()), interval.low, interval.high, len(values))


def _word(words: list[str]) -> Summary:
    """The most frequent word, with how many seeds agree where not all do."""
    (word, count), *_ = Counter(words).most_common()
    return Summary(word if count == len(words) else f"{word} ({count}/{len(words)})", n=len(words))


def _find(result: Result, name: str, at: Mapping[str, Coordinate]) -> Metric | None:
    """The metric at coordinates; one that a protocol does not have (a single variable, say) is not asked for."""
    candidates = [metric for metric in result.metrics if metric.metric == name]
    exact = [metric for metric in candidates if metric.at == dict(at)]
    if exact:
        return exact[0]
    near = [metric for metric in candidates if all(metric.at[key] == at.get(key) for key in metric.at)]
    return near[0] if len(near) == 1 else None


def _draws(column: Column, results: Sequence[Result], at: Mapping[str, Coordinate]) -> Float64 | None:
    """Resamples of seeds and of sequences within them, where there are per-sequence counts."""
    if column.protocol != "behaviour":
        return None
    if column.metric == "accuracy":
        values = [_share(result, "correct", int(at["length"])) for result in results]
        return hierarchical_means(values, _rng(), shared=True).mean(axis=1)
    if column.metric == "ood_skill":
        return _ood_draws(results)
    return None


def _ood_draws(results: Sequence[Result]) -> Float64:
    lengths = results[0].specs["task"]["lengths"]
    longer = [length for length in lengths["evaluate"] if length > lengths["train"]]
    total = np.zeros(0)
    for length in longer:
        pairs = [np.stack([_share(r, "correct", length), _share(r, "chance", length)], axis=1) for r in results]
        means = hierarchical_means(pairs, _rng(), shared=True)
        by_seed = skill(means[..., 0], means[..., 1])
        total = by_seed.mean(axis=1) if not len(total) else total + by_seed.mean(axis=1)
    return total / len(longer)


def _share(result: Result, kind: str, length: int) -> Float64:
    """Per sequence the share of right positions."""
    positions = length - int(result.specs["protocol"].get("params", {}).get("min_position", 0))
    return result.arrays[f"{kind}/{length}"].unpack() / positions


def _rng() -> np.random.Generator:
    """The same draws at every call: numbers of a report do not change from look to look, and lengths stay paired."""
    return np.random.default_rng(0)
