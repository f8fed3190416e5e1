"""Ranks from paired differences: two models are told apart only if the interval of their difference excludes 0.

The headline is a mean over tasks of a mean over seeds. For `behaviour.ood_skill` result files carry the right positions
of every sequence, so seeds and whole sequences are resampled, with one set of draws for all models: that is what pairs
them by seed and by sequence. All are measured on the same sequences, so one draw of sequences serves them all.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..suite.measure.statistics import DRAWS, Resamples, level_over_seeds
from ..suite.spec.results import PackedArray, Result
from .boards import Board, Entry

__all__ = ["Difference", "Headline", "Ranking", "rank"]

COUNTED = "behaviour.ood_skill"
_MOST_SEQUENCES = 1_000_000
_SAME = 1e-6
_SEED = 20_240_601


@dataclass(frozen=True, slots=True)
class Headline:
    """A model's value of the metric that ranks, mean over tasks and seeds, with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """One model's headline minus another's, with its paired 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def tells_apart(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


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
    entries.sort(key=lambda entry: (-samples[entry.identity][0], entry.name, entry.identity))
    level = level_over_seeds(len(board.seeds))
    differences = _differences([(entry.identity, *samples[entry.identity]) for entry in entries], level)
    leader: Entry | None = None
    for place, entry in enumerate(entries, start=1):
        if leader is None or differences[leader.identity, entry.identity].tells_apart:
            leader, entry.rank = entry, place
        else:
            entry.rank = leader.rank
    board.entries = entries + [entry for entry in board.entries if entry.rank is None]
    headlines = {
        identity: Headline(point, *_ends(drawn[None], level)[0].tolist())
        for identity, (point, drawn) in samples.items()
    }
    return Ranking(headlines, differences, board.suite.headline == COUNTED)


def _differences(
    models: Sequence[tuple[str, float, NDArray[np.float64]]], level: float
) -> dict[tuple[str, str], Difference]:
    """Every model minus every other, from their values and draws."""
    found: dict[tuple[str, str], Difference] = {}
    draws = np.array([drawn for _, _, drawn in models])
    for index, (one, value, drawn) in enumerate(models):
        later = models[index + 1 :]
        for (other, minus, _), (low, high) in zip(
            later, _ends(drawn - draws[index + 1 :], level).tolist(), strict=True
        ):
            found[one, other] = Difference(value - minus, low, high)
            found[other, one] = Difference(minus - value, -high, -low)
    return found


def _ends(draws: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    """The percentile interval of each row at a nominal level, (rows, 2)."""
    count = draws.shape[1]
    outside = round((1 - level) / 2 * count)
    ends = [outside, count - 1 - outside]
    return np.partition(draws, ends, axis=1)[:, ends]


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


def _counted_samples(board: Board) -> dict[str, tuple[float, NDArray[np.float64]]]:
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


def _bootstrap(counts: dict[str, _Cell], board: Board) -> dict[str, tuple[float, NDArray[np.float64]]]:
    rng = np.random.default_rng(_SEED)
    models = list(counts.values())
    points, total = np.zeros(len(models)), np.zeros((DRAWS, len(models)))
    for task, spec in board.tasks.items():
        share = _seed_shares(rng, len(board.seeds))
        longer = [length for length in spec.lengths.evaluate if length > spec.lengths.train]
        for length in longer:
            first = models[0][task, length]
            right = np.stack([found[task, length].right for found in models])
            drawn = Resamples(len(first.guessed), rng, DRAWS).means(
                np.concatenate([right.reshape(-1, right.shape[2]), first.guessed[None]])
            )
            by_seed = drawn[:, :-1].reshape(DRAWS, len(models), len(board.seeds))
            means = np.einsum("bms,bs->bm", by_seed, share)
            weight = 1 / (len(longer) * len(board.tasks))
            points += weight * _skill(right.mean(axis=(1, 2)), first.guessed.mean(), first.positions)
            total += weight * _skill(means, drawn[:, -1:], first.positions)
    return {identity: (float(points[i]), total[:, i]) for i, identity in enumerate(counts)}


def _seed_shares(rng: np.random.Generator, seeds: int) -> NDArray[np.float64]:
    """The share of each seed in every resample of seeds, (draws, seeds)."""
    chosen = rng.integers(seeds, size=(DRAWS, seeds))
    return (chosen[:, :, None] == np.arange(seeds)).mean(axis=1)


# The headline from metric values


def _metric_samples(board: Board) -> dict[str, tuple[float, NDArray[np.float64]]]:
    """Headline and draws of a metric without counts: paired by seed; a seed's value moves within its interval."""
    protocol, _, name = board.suite.headline.partition(".")
    found: dict[str, tuple[float, NDArray[np.float64]]] = {}
    for entry in board.entries:
        if entry.unranked:
            continue
        pairing = np.random.default_rng(_SEED)
        own = np.random.default_rng(int(entry.identity, 16))
        point, total = 0.0, np.zeros(DRAWS)
        for task in board.tasks:
            share = _seed_shares(pairing, len(board.seeds))
            results = [entry.results.get((task, seed, protocol)) for seed in board.seeds]
            metrics = [m for r in results if r is not None for m in r.metrics if m.metric == name and not m.at]
            values = np.array([m.value for m in metrics if isinstance(m.value, float) and m.status == "ok"])
            if len(values) != len(board.seeds):
                entry.unranked.append(f"Incomplete: {board.suite.headline} has no usable value on {task}")
                break
            spread = np.array([((m.high or 0) - (m.low or 0)) / 3.919928 if m.low is not None else 0 for m in metrics])
            noise = own.standard_normal((DRAWS, len(values)))
            total += (share * (values + noise * spread)).sum(axis=1) / len(board.tasks)
            point += float(values.mean()) / len(board.tasks)
        else:
            found[entry.identity] = (point, total)
    return found
