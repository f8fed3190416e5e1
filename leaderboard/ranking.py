"""Ranks from paired differences: two models are told apart only if the interval of their difference excludes 0.

The headline is a mean over tasks of a mean over seeds. For `behaviour.ood_skill` result files carry the right positions
of every sequence, so whole sequences are resampled, with one set of draws for all models and seeds: that pairs them by
sequence. Differences of each seed's headline, with the spread between seeds, pair them by seed (see `ends_over_seeds`).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..suite.measure.statistics import ANYWHERE, DRAWS, Resamples, ends_over_seeds, reach
from ..suite.spec.results import PackedArray, Result, natural_span
from .boards import Board, Entry

__all__ = ["Difference", "Headline", "Ranking", "rank"]

COUNTED = "behaviour.ood_skill"
_MOST_SEQUENCES = 1_000_000
_SAME = 1e-6
_SEED = 20_240_601
_NORMAL = 1.959964


@dataclass(frozen=True, slots=True)
class Headline:
    """A model's value of the metric that ranks, mean over tasks and seeds, with its 95 % interval if it has one."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """One model's headline minus another's, with its paired 95 % interval if it has one."""

    value: float
    low: float | None
    high: float | None

    @property
    def tells_apart(self) -> bool:
        """Whether there is an interval and it excludes 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True, slots=True)
class _Sample:
    """A headline by seed, (seeds,), and its mean over them in every resample of sequences, (draws,)."""

    by_seed: NDArray[np.float64]
    draws: NDArray[np.float64]

    @property
    def value(self) -> float:
        return float(self.by_seed.mean())


@dataclass(frozen=True, slots=True)
class Ranking:
    """What the headline says of a board.

    Attributes
    ----------
    headlines : dict
        By entry identity, of ranked models.
    differences : dict
        By pair of entry identities, first minus second, of ranked models.
    paired_by_sequence : bool
        Whether differences are paired by sequence, or by seed only.
    """

    headlines: dict[str, Headline]
    differences: dict[tuple[str, str], Difference]
    paired_by_sequence: bool


def rank(board: Board) -> Ranking:
    """Give ranks to the entries that may have one, and put the board in order.

    Going down the headline, a model shares the rank of the best model of the group above it unless the 95 % interval of
    their paired difference excludes 0; then it starts the next group, ranked by its place.

    Parameters
    ----------
    board : Board
        Its entries are ordered and get their `rank`; those whose files do not support the headline get a reason.
    """
    protocol = board.suite.headline.partition(".")[0]
    if protocol not in board.protocols:
        for entry in board.entries:
            entry.unranked.append(f"The board ranks by {board.suite.headline}, and {protocol} was not run")
    samples = _counted_samples(board) if board.suite.headline == COUNTED else _metric_samples(board)
    entries = [entry for entry in board.entries if entry.identity in samples]
    entries.sort(key=lambda entry: (-samples[entry.identity].value, entry.name, entry.identity))
    differences = _differences([(entry.identity, samples[entry.identity]) for entry in entries])
    leader: Entry | None = None
    for place, entry in enumerate(entries, start=1):
        if leader is None or differences[leader.identity, entry.identity].tells_apart:
            leader, entry.rank = entry, place
        else:
            entry.rank = leader.rank
    board.entries = entries + [entry for entry in board.entries if entry.rank is None]
    span = natural_span(board.suite.headline.partition(".")[2])
    headlines = {
        identity: Headline(sample.value, *_intervals(sample.by_seed[None], sample.draws[None], span)[0])
        for identity, sample in samples.items()
    }
    return Ranking(headlines, differences, board.suite.headline == COUNTED)


def _differences(models: Sequence[tuple[str, _Sample]]) -> dict[tuple[str, str], Difference]:
    """Every model minus every other."""
    found: dict[tuple[str, str], Difference] = {}
    by_seed, draws = (np.array([getattr(sample, part) for _, sample in models]) for part in ("by_seed", "draws"))
    for index, (one, _) in enumerate(models[:-1]):
        gaps = by_seed[index] - by_seed[index + 1 :]
        intervals = _intervals(gaps, draws[index] - draws[index + 1 :])
        later = [other for other, _ in models[index + 1 :]]
        for other, gap, (low, high) in zip(later, gaps.mean(axis=1).tolist(), intervals, strict=True):
            found[one, other] = Difference(gap, low, high)
            found[other, one] = Difference(-gap, None if high is None else -high, None if low is None else -low)
    return found


def _intervals(
    by_seed: NDArray[np.float64], draws: NDArray[np.float64], span: tuple[float, float] = ANYWHERE
) -> list[tuple[float | None, float | None]]:
    """The interval of each row: its mean over seeds, (rows, seeds), with its draws over sequences, (rows, draws)."""
    ends = ends_over_seeds(by_seed, *reach(draws, by_seed.mean(axis=1)), span=span)
    return [(None, None) if math.isnan(low + high) else (low, high) for low, high in np.stack(ends, axis=1).tolist()]


# The headline from per-sequence counts


@dataclass(frozen=True, slots=True)
class _Counts:
    """Right positions at one length: of every seed and sequence, (seeds, n), and of the baseline, (n,)."""

    right: NDArray[np.int64]
    guessed: NDArray[np.int64]
    positions: int

    @property
    def form(self) -> tuple[tuple[int, ...], bytes, int]:
        """What must be the same for two models to be paired."""
        return self.right.shape, self.guessed.tobytes(), self.positions


_Cell = dict[tuple[str, int], _Counts]
"""By task and length."""


def _skill(right: NDArray[np.float64], guessed: NDArray[np.float64], positions: int) -> NDArray[np.float64]:
    return (right - guessed) / (positions - guessed)


def _counted_samples(board: Board) -> dict[str, _Sample]:
    """Headline and its bootstrap draws, by entry identity, of every entry whose files carry the counts."""
    counts: dict[str, _Cell] = {}
    for entry in board.entries:
        if entry.unranked:
            continue
        try:
            counts[entry.identity] = _counts_of(entry, board)
        except ValueError as error:
            entry.unranked.append(f"Its headline cannot be checked: {error}")
    counts = _alike(counts, board)
    return _bootstrap(counts, board) if counts else {}


def _counts_of(entry: Entry, board: Board) -> _Cell:
    found: _Cell = {}
    for task, spec in board.tasks.items():
        results = [entry.results[task, seed, "behaviour"] for seed in board.seeds]
        first = board.protocols["behaviour"].params.get("min_position", 0)
        longer = [length for length in spec.lengths.evaluate if length > spec.lengths.train]
        if not longer:
            raise ValueError(f"{task} has no length beyond its training length")
        for length in longer:
            found[task, length] = _counts_at(results, length, length - (first if isinstance(first, int) else 0), task)
        skills = [_skill(c.right.mean(axis=1), c.guessed.mean(), c.positions) for c in (found[task, n] for n in longer)]
        for result, skill in zip(results, np.mean(skills, axis=0), strict=True):
            stated = next((m.value for m in result.metrics if m.metric == "ood_skill" and not m.at), None)
            if not isinstance(stated, float) or abs(stated - float(skill)) > _SAME:
                raise ValueError(f"ood_skill on {task} is given as {stated}, and its counts make it {skill:.6f}")
    return found


def _counts_at(results: Sequence[Result], length: int, positions: int, task: str) -> _Counts:
    right = [_unpacked(result.arrays, f"correct/{length}", task) for result in results]
    guessed = [_unpacked(result.arrays, f"chance/{length}", task) for result in results]
    if len({counts.shape for counts in [*right, *guessed]}) > 1 or any((one != guessed[0]).any() for one in guessed):
        raise ValueError(f"the seeds of {task} were not measured on the same sequences at length {length}")
    counts = _Counts(np.stack(right), guessed[0], positions)
    for array in (counts.right, counts.guessed):
        if array.min() < 0 or array.max() > positions:
            raise ValueError(f"{task} counts more right positions than the {positions} that a sequence has")
    if counts.guessed.min() == positions:
        raise ValueError(f"chance is 1 on {task} at length {length}")
    return counts


def _unpacked(arrays: Mapping[str, PackedArray], name: str, task: str) -> NDArray[np.int64]:
    packed = arrays.get(name)
    if packed is None:
        raise ValueError(f"{task} has no counts {name}")
    if len(packed.shape) != 1 or not 1 < packed.shape[0] <= _MOST_SEQUENCES:
        raise ValueError(f"the counts {name} of {task} have the shape {packed.shape}")
    try:
        return packed.unpack()
    except (ValueError, zlib.error) as error:
        raise ValueError(f"the counts {name} of {task} cannot be unpacked: {error}") from error


def _alike(counts: dict[str, _Cell], board: Board) -> dict[str, _Cell]:
    """Leave out, with a reason, entries that were not scored on the same sequences as most."""
    forms = {
        identity: tuple((place, c.form) for place, c in sorted(found.items())) for identity, found in counts.items()
    }
    usual = max(sorted(set(forms.values())), key=list(forms.values()).count, default=())
    for entry in board.entries:
        if entry.identity in forms and forms[entry.identity] != usual:
            entry.unranked.append("It was scored on other sequences than the rest of the board")
    return {identity: found for identity, found in counts.items() if forms[identity] == usual}


def _bootstrap(counts: dict[str, _Cell], board: Board) -> dict[str, _Sample]:
    rng = np.random.default_rng(_SEED)
    models = list(counts.values())
    by_seed, total = np.zeros((len(models), len(board.seeds))), np.zeros((len(models), DRAWS))
    for task, spec in board.tasks.items():
        longer = [length for length in spec.lengths.evaluate if length > spec.lengths.train]
        for length in longer:
            first = models[0][task, length]
            right = np.stack([found[task, length].right for found in models])
            means = np.concatenate([right.mean(axis=1), first.guessed[None]])
            drawn = Resamples(len(first.guessed), rng, DRAWS).means(means).T
            weight = 1 / (len(longer) * len(board.tasks))
            by_seed += weight * _skill(right.mean(axis=2), first.guessed.mean(), first.positions)
            total += weight * _skill(drawn[:-1], drawn[-1], first.positions)
    return {identity: _Sample(by_seed[i], total[i]) for i, identity in enumerate(counts)}


# The headline from metric values


def _metric_samples(board: Board) -> dict[str, _Sample]:
    """Headline and draws of a metric without counts: paired by seed; the mean moves within the seeds' intervals."""
    protocol, _, name = board.suite.headline.partition(".")
    found: dict[str, _Sample] = {}
    for entry in board.entries:
        if entry.unranked:
            continue
        own = np.random.default_rng(int(entry.identity, 16))
        by_seed, total = np.zeros(len(board.seeds)), np.zeros(DRAWS)
        for task in board.tasks:
            results = [entry.results.get((task, seed, protocol)) for seed in board.seeds]
            metrics = [m for r in results if r is not None for m in r.metrics if m.metric == name and not m.at]
            usable = [m for m in metrics if isinstance(m.value, float) and m.status == "ok"]
            if len(usable) != len(board.seeds):
                entry.unranked.append(f"Incomplete: {board.suite.headline} has no usable value on {task}")
                break
            values, below, above = np.array([(m.number, m.below, m.above) for m in usable]).T
            noise = own.standard_normal(DRAWS) / _NORMAL
            down, up = (float(np.nan_to_num(each).mean()) for each in (below, above))
            moved = np.maximum(noise, 0) * up - np.maximum(-noise, 0) * down
            by_seed += values / len(board.tasks)
            total += (values.mean() + moved) / len(board.tasks)
        else:
            found[entry.identity] = _Sample(by_seed, total)
    return found
