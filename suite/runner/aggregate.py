"""One number for several seeds: the mean, with an interval that covers sequences and, with several seeds, seeds too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..measure.chance import skill
from ..measure.statistics import Resamples, interval_over_seeds, percentile_interval
from ..spec.results import Coordinate, Metric, Result, SuiteRecord
from .seeds import over_seeds

__all__ = [
    "COLUMNS",
    "NOT_MEASURED",
    "Column",
    "Counted",
    "Summary",
    "extra_columns",
    "sequence_draws",
    "shows",
    "summarise",
]

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
        Why there is no value, or no interval.
    not_converged : int
        Of the seeds with a value, those whose fits did not all converge.
    """

    value: float | str | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    reason: str | None = None
    not_converged: int = 0

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
    usable = [metric for metric in found if shows(column, metric) and metric.status in _USABLE]
    if not usable:
        reasons = Counter(metric.reason or metric.status for metric in found)
        return Summary(reason=reasons.most_common(1)[0][0] if reasons else NOT_MEASURED)
    unsound = sum(not metric.is_converged for metric in usable)
    if column.is_word:
        return replace(_word([str(metric.value) for metric in usable]), not_converged=unsound)
    values = np.array([metric.number for metric in usable], np.float64)
    if len(usable) == 1:
        return Summary(float(values[0]), usable[0].low, usable[0].high, 1, not_converged=unsound)
    value = float(values.mean())
    counted = sequence_draws(column, results, task) if len(usable) == len(results) else None
    if counted is None:
        interval = over_seeds(usable)
    else:
        own = percentile_interval(counted.draws, value, units=counted.sequences)
        interval = interval_over_seeds(values, *own.reach(value), span=usable[0].span)
    return Summary(value, interval.low, interval.high, len(values), interval.reason, unsound)


def shows(column: Column, metric: Metric) -> bool:
    """Whether the metric has a value of the kind that the column shows: a word or a number."""
    return metric.value is not None and isinstance(metric.value, str) == column.is_word


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


@dataclass(frozen=True)
class Counted:
    """What the choice of sequences does to the mean of given seeds: the mean in every resample, and of how many."""

    draws: Float64
    sequences: int


def sequence_draws(column: Column, results: Sequence[Result], task: Mapping[str, Any]) -> Counted | None:
    """Resamples of the sequences that all seeds share, the same for all models; None where there are no such counts."""
    train = int(task["lengths"]["train"])
    if column.protocol != "behaviour":
        return None
    if column.metric == "accuracy":
        found = _mean_shares(results, "correct", train)
        return None if found is None else Counted(found[0].mean(axis=1), found[1])
    longer = [int(length) for length in task["lengths"]["evaluate"] if length > train]
    if column.metric != "ood_skill" or not longer:
        return None
    by_length: list[Float64] = []
    sequences: list[int] = []
    for length in longer:
        right, guessed = (_mean_shares(results, kind, length) for kind in ("correct", "chance"))
        if right is None or guessed is None or right[1] != guessed[1]:
            return None
        by_length.append(skill(right[0], guessed[0]).mean(axis=1))
        sequences.append(right[1])
    return Counted(np.mean(by_length, axis=0), min(sequences))


def _mean_shares(results: Sequence[Result], kind: str, length: int) -> tuple[Float64, int] | None:
    """Means (draws, seeds) of the share of right positions a sequence, and how many sequences; None if seeds differ."""
    shares: list[Float64] = []
    for result in results:
        positions = length - int(result.specs["protocol"].get("params", {}).get("min_position", 0))
        packed = result.arrays.get(f"{kind}/{length}")
        if packed is None:
            return None
        shares.append(packed.unpack() / positions)
    if len({share.shape for share in shares}) != 1:
        return None
    return Resamples(len(shares[0]), _rng()).means(np.stack(shares)), len(shares[0])


def _rng() -> np.random.Generator:
    """The same draws at every call: numbers of a report do not change from look to look, and lengths stay paired."""
    return np.random.default_rng(0)
