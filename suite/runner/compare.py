"""Models side by side: headline metrics of each, and differences paired by seed, and by sequence where counts allow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...tasks.errors import LayerstateError
from ..measure.statistics import Interval, interval_over_seeds, percentile_interval, sign_flip_test
from ..spec.results import Coordinate, Metric, Result
from ..spec.suggest import did_you_mean
from .aggregate import COLUMNS, Column, sequence_draws, shows
from .formats import Format
from .gathered import Gathered
from .seeds import over_pairs
from .tables import aligned, as_csv, as_markdown

__all__ = ["Difference", "compare_text", "differences"]

Float64 = NDArray[np.float64]
_MOST_SEEDS = 20
_FURTHER = [
    Column("inlp", "necessity, best site", "necessity", "verdict", {"site": "$best", "method": "inlp"}, is_word=True),
    Column(
        "bypass", "conv1d bypassed, pp", "conv1d_attribution", "posthoc_effect", {"mode": "bypass", "length": "$train"}
    ),
    Column("retrain", "without conv1d, pp", "conv1d_attribution", "retrain_effect", {"length": "$train"}),
    Column("grouping", "grouping", "grouping", "grouping"),
]


@dataclass(frozen=True)
class Difference:
    """One metric of two models on one task.

    Attributes
    ----------
    task, metric, first, second : str
        Which metric, of which two models.
    values : tuple
        Means over the common seeds (numbers), or words by seed.
    difference, low, high : float or None
        First minus second, with its 95 % interval.
    seeds : int
        Seeds that both have.
    p, smallest_p : float or None
        Of the exact sign-flip test over seeds, and the smallest that so many can give.
    note : str
        What has to be known to read it, or why there is none.
    """

    task: str
    metric: str
    first: str
    second: str
    values: tuple[float | str | None, float | str | None]
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int = 0
    p: float | None = None
    smallest_p: float | None = None
    note: str = ""


def compare_text(suites: Sequence[Gathered], models: Sequence[str], folder: Path, format: Format) -> str:
    """The comparison of the first model with each of the others, for every suite that has them all.

    Raises
    ------
    LayerstateError
        If no suite in the folder has all of them.
    """
    having = [suite for suite in suites if set(models) <= set(suite.record.models)]
    if not having:
        known = list(dict.fromkeys(name for suite in suites for name in suite.record.models))
        absent = next((name for name in models if name not in known), models[-1])
        raise LayerstateError(f"No suite in {folder} has the model {absent!r}; {did_you_mean(absent, known)}.")
    found = [(suite, differences(suite, models[0], other)) for suite in having for other in models[1:]]
    if format is Format.JSON:
        plain = [{"suite": suite.record.suite["name"], **asdict(each)} for suite, rows in found for each in rows]
        return json.dumps({"differences": plain}, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    if format is Format.CSV:
        header = ["suite", "task", "metric", "first", "second", "first_value", "second_value"]
        header += ["difference", "low", "high", "seeds", "p", "smallest_p", "note"]
        return as_csv(header, [_csv_row(suite, each) for suite, rows in found for each in rows])
    return "\n".join(_table(suite, rows, format) for suite, rows in found)


def differences(suite: Gathered, first: str, second: str) -> list[Difference]:
    """Every headline metric on every task, the two models paired by seed."""
    by_key: dict[tuple[str, str, str], dict[int, Result]] = {}
    for result in suite.results:
        key = (result.cell.model, result.cell.task, result.protocol)
        by_key.setdefault(key, {})[result.cell.seed] = result
    rows: list[Difference] = []
    for task, spec in suite.record.tasks.items():
        for column in [*COLUMNS, *_FURTHER]:
            if column.protocol not in suite.record.protocols:
                continue
            pair = [by_key.get((model, task, column.protocol), {}) for model in (first, second)]
            profiles = [by_key.get((model, task, "probe_profile"), {}) for model in (first, second)]
            rows.append(_difference(task, spec, column, (first, second), pair, profiles))
    return [row for row in rows if row.values != (None, None)]


def _difference(
    task: str,
    spec: Mapping[str, Any],
    column: Column,
    models: tuple[str, str],
    results: Sequence[Mapping[int, Result]],
    profiles: Sequence[Mapping[int, Result]],
) -> Difference:
    found = [
        {
            seed: metric
            for seed, result in each.items()
            if (metric := _metric(result, column, spec, profile.get(seed))) is not None and shows(column, metric)
        }
        for each, profile in zip(results, profiles, strict=True)
    ]
    seeds = sorted(found[0].keys() & found[1].keys())
    note = _note(models, found)
    if not seeds:
        single = [_mean_or_word(list(each.values())) for each in found]
        return Difference(task, column.title, *models, (single[0], single[1]), note=note or "no seed has both")
    pairs = [(found[0][seed], found[1][seed]) for seed in seeds]
    values = tuple(_mean_or_word([pair[index] for pair in pairs]) for index in (0, 1))
    if column.is_word:
        return Difference(task, column.title, *models, (values[0], values[1]), seeds=len(seeds), note=note)
    numbers = np.array([a.number - b.number for a, b in pairs])
    interval = _interval(column, spec, pairs, [(results[0][seed], results[1][seed]) for seed in seeds])
    test = sign_flip_test(numbers) if 2 <= len(seeds) <= _MOST_SEEDS else None
    said = [note]
    if len(seeds) == 1:
        said.append("one seed: sequences only" if interval.low is not None else "one seed: no interval")
    else:
        said.append(interval.reason or "")
        said.append(f"no p below {test.smallest:.3g} with {len(seeds)} seeds" if test and test.smallest > 0.05 else "")
    return Difference(
        task,
        column.title,
        *models,
        (values[0], values[1]),
        difference=float(numbers.mean()),
        low=interval.low,
        high=interval.high,
        seeds=len(seeds),
        p=None if test is None else test.p,
        smallest_p=None if test is None else test.smallest,
        note="; ".join(filter(None, said)),
    )


def _metric(result: Result, column: Column, spec: Mapping[str, Any], profile: Result | None) -> Metric | None:
    places: dict[str, Coordinate] = {"$train": spec["lengths"]["train"], "$target": spec["target"]}
    if profile is not None:
        on = {"variable": spec["target"], "on": "skill"}
        best = [metric.value for metric in profile.metrics if metric.metric == "best_site" and metric.at == on]
        places |= {"$best": best[0]} if best and isinstance(best[0], str) else {}
    at = {name: places.get(str(place), place) for name, place in column.at.items()}
    return next((metric for metric in result.metrics if metric.metric == column.metric and metric.at == at), None)


def _interval(
    column: Column,
    spec: Mapping[str, Any],
    pairs: Sequence[tuple[Metric, Metric]],
    results: Sequence[tuple[Result, Result]],
) -> Interval:
    """Of the mean difference: paired by seed, and by sequence where counts a sequence are there."""
    counted = [sequence_draws(column, [pair[index] for pair in results], spec) for index in (0, 1)]
    first, second = counted
    if first is None or second is None or first.sequences != second.sequences:
        return over_pairs(pairs)
    numbers = np.array([a.number - b.number for a, b in pairs])
    value = float(numbers.mean())
    own = percentile_interval(first.draws - second.draws, value, units=first.sequences, exact=(0.0,))
    return interval_over_seeds(numbers, *own.reach(value))


def _note(models: tuple[str, str], found: Sequence[Mapping[int, Metric]]) -> str:
    below = [
        model
        for model, metrics in zip(models, found, strict=True)
        if any(metric.status == "below_gate" for metric in metrics.values())
    ]
    slow = [
        model
        for model, metrics in zip(models, found, strict=True)
        if not all(metric.is_converged for metric in metrics.values())
    ]
    said = [f"below gate: {', '.join(below)}" if below else "", f"not converged: {', '.join(slow)}" if slow else ""]
    return "; ".join(filter(None, said))


def _mean_or_word(metrics: Sequence[Metric]) -> float | str | None:
    if not metrics:
        return None
    words = [metric.value for metric in metrics if isinstance(metric.value, str)]
    if words:
        return ", ".join(dict.fromkeys(words))
    return float(np.mean([metric.number for metric in metrics]))


def _table(suite: Gathered, rows: Sequence[Difference], format: Format) -> str:
    if not rows:
        return f"{suite.record.suite['name']}: nothing measured of both\n"
    first, second = rows[0].first, rows[0].second
    header = ["task", "metric", first, second, "difference [95 % interval]", "seeds", "p", "note"]
    shown = [
        [
            row.task,
            row.metric,
            _shown(row.values[0]),
            _shown(row.values[1]),
            _with_interval(row),
            str(row.seeds or "–"),
            "–" if row.p is None else f"{row.p:.3g}",
            row.note,
        ]
        for row in rows
    ]
    title = f"{suite.record.suite['name']} ({suite.record.identity[:12]}): {first} minus {second}"
    if format is Format.MARKDOWN:
        return f"### {title}\n\n{as_markdown(header, shown)}\n"
    return f"{title}\n\n{aligned(header, shown)}\n"


def _with_interval(row: Difference) -> str:
    if row.difference is None:
        return "–"
    ends = "" if row.low is None or row.high is None else f" [{row.low:+.3f}, {row.high:+.3f}]"
    return f"{row.difference:+.3f}{ends}"


def _shown(value: float | str | None) -> str:
    return "–" if value is None else value if isinstance(value, str) else f"{value:.3f}"


def _csv_row(suite: Gathered, row: Difference) -> list[Any]:
    name = suite.record.suite["name"]
    ends = [row.difference, row.low, row.high, row.seeds, row.p, row.smallest_p, row.note]
    return [name, row.task, row.metric, row.first, row.second, *row.values, *ends]
