"""What one position carries: put its clean activation into a corrupted run, one site at a time.

Shape suffixes: B pairs, L length, D width, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...adapters.base import AdapterError
from ...tasks.errors import TaskError
from ..measure.patching import last_differing, logit_differences, recovery
from ..measure.statistics import Resamples
from ..spec.results import Coordinate
from . import base
from .base import CellView, FloatArray, Outcome, Reading
from .readings import estimate, undefined

__all__ = ["MECHANISTIC", "VERSION", "Params", "measure"]

VERSION = 1
MECHANISTIC = True

Int = NDArray[np.int64]
Float64 = NDArray[np.float64]
READS = ("self", "downstream")
SAME = 1e-3
"""Within this, absolute and relative, two runs give the same logits."""
_AS_GIVEN = 0.01  # a recovery this close to what construction makes it, with differences of logits that are small
_CORRUPTION_SEED = 0  # not the cell's: all models and seeds are measured on the same pairs
_CHECKED = 32  # pairs that show whether a patch of a run into itself changes anything


class Params(base.Params):
    """Parameters of `patching`."""

    max_pairs: int | None = Field(default=None, ge=2)
    """Pairs to patch: so many of the first sequences of `evaluate`, or all."""
    min_difference: float = Field(default=0.1, gt=0.0)
    """Pairs whose clean and corrupted logit differences are closer than this are left out."""
    draws: int = Field(default=2000, ge=100, le=100_000)
    """Bootstrap resamples of whole pairs."""


@dataclass(frozen=True)
class _Pairs:
    """Clean sequences, their corrupted twins, and what the model makes of both.

    Attributes
    ----------
    position : int
        Where they are corrupted, and patched.
    clean_BL, corrupt_BL : int64 arrays
        The target state.
    tokens_BL : int64 array
        Of the corrupted sequences.
    first, alone : bool
        Whether in all pairs no token before `position` differs, and no other token at all.
    """

    position: int
    clean_BL: Int
    corrupt_BL: Int
    tokens_BL: Int
    first: bool
    alone: bool
    clean_logits_BLC: FloatArray
    corrupt_logits_BLC: FloatArray


@dataclass
class _Read:
    """One place where the output is read, and the pairs that it is read on.

    Attributes
    ----------
    rows_B : int64 array
        Pairs whose state differs there.
    kept_B : bool array
        Which of them the model tells apart, so that there is something to recover.
    """

    name: str
    rows_B: Int
    position_B: Int
    pairs: _Pairs
    min_difference: float
    clean_B: Float64 = field(init=False)
    corrupt_B: Float64 = field(init=False)
    kept_B: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.clean_B = self.differences(self.pairs.clean_logits_BLC)
        self.corrupt_B = self.differences(self.pairs.corrupt_logits_BLC)
        self.kept_B = np.abs(self.clean_B - self.corrupt_B) >= self.min_difference

    def differences(self, logits_BLC: FloatArray) -> Float64:
        """Logit differences of the pairs that are read."""
        rows_B, position_B = self.rows_B, self.position_B
        classes = (y_BL[rows_B, position_B] for y_BL in (self.pairs.clean_BL, self.pairs.corrupt_BL))
        return logit_differences(logits_BLC[rows_B], position_B, *classes)

    def recovery(self, logits_BLC: FloatArray) -> Float64:
        """What patched logits recover, of the pairs that are kept."""
        patched_B, kept_B = self.differences(logits_BLC), self.kept_B
        return recovery(patched_B[kept_B], self.clean_B[kept_B], self.corrupt_B[kept_B])


def measure(cell: CellView, params: Params) -> Outcome:
    """Recovery at every site, read at the patched position and at the last one whose state differs."""
    try:
        pairs = _pairs(cell, params)
    except TaskError as error:
        return Outcome(_without_pairs(cell, f"no_corruption: {error}"))
    outcome, reads = Outcome(), _reads(pairs, params)
    found: dict[str, dict[str, Float64]] = {read.name: {} for read in reads}
    for site, logits_BLC in _patched(cell, pairs):
        for read in reads:
            found[read.name][site] = read.recovery(logits_BLC)
    for read in reads:
        outcome.readings += _read_readings(cell, read, params) + _recoveries(cell, read, found[read.name], params)
    return outcome


def _pairs(cell: CellView, params: Params) -> _Pairs:
    length, target = cell.spec.lengths.train, cell.task.target
    batch = cell.data("evaluate", length)
    n, position = min(len(batch), params.max_pairs or len(batch)), length // 2
    clean = batch.take(np.arange(n))
    corrupt = cell.task.corrupt(clean, position, np.random.default_rng(_CORRUPTION_SEED))
    logits_BLC = cell.adapter.logits(corrupt.tokens)
    if not np.isfinite(logits_BLC).all():
        raise AdapterError("The logits are not finite on corrupted sequences of evaluate; they must be numbers.")
    others_BL = clean.tokens != corrupt.tokens
    others_BL[:, position] = False
    return _Pairs(
        position=position,
        clean_BL=clean.states[target],
        corrupt_BL=corrupt.states[target],
        tokens_BL=corrupt.tokens,
        first=not others_BL[:, :position].any(),
        alone=not others_BL.any(),
        clean_logits_BLC=cell.logits("evaluate", length)[:n],
        corrupt_logits_BLC=logits_BLC,
    )


def _reads(pairs: _Pairs, params: Params) -> tuple[_Read, _Read]:
    """At the patched position, and at the last later one whose state differs; pairs without one are not read there."""
    last_B, at_B = last_differing(pairs.clean_BL, pairs.corrupt_BL), np.full(len(pairs.clean_BL), pairs.position)
    here = np.flatnonzero(pairs.clean_BL[:, pairs.position] != pairs.corrupt_BL[:, pairs.position])
    later = np.flatnonzero(last_B > pairs.position)
    own, downstream = READS
    return (
        _Read(own, here, at_B[here], pairs, params.min_difference),
        _Read(downstream, later, last_B[later], pairs, params.min_difference),
    )


def _patched(cell: CellView, pairs: _Pairs) -> Iterator[tuple[str, FloatArray]]:
    """Every site with the logits (B, L, C) of the corrupted run that got the clean activation there."""
    length, n = cell.spec.lengths.train, len(pairs.tokens_BL)
    clean = cell.activations("evaluate", length)
    _expect_no_change(cell, clean, pairs)
    clean_BD = {site: h_BLD[:n, pairs.position].copy() for site, h_BLD in clean.items()}
    del clean  # the cache may let go of it
    corrupt = cell.adapter.capture(pairs.tokens_BL)
    for site in cell.adapter.sites:
        h_BLD = corrupt.pop(site).copy()
        h_BLD[:, pairs.position] = clean_BD[site]
        yield site, cell.adapter.resume(pairs.tokens_BL, site, h_BLD)


def _expect_no_change(cell: CellView, clean: Mapping[str, FloatArray], pairs: _Pairs) -> None:
    """Raise unless a clean run patched with its own activations gives the clean logits.

    Raises
    ------
    AdapterError
        Names the first site where it does not: what is measured there would be the tool, not the model.
    """
    tokens_BL = cell.data("evaluate", cell.spec.lengths.train).tokens[: len(pairs.tokens_BL)][:_CHECKED]
    expected_BLC = pairs.clean_logits_BLC[:_CHECKED]
    for site in cell.adapter.sites:
        found_BLC = cell.adapter.resume(tokens_BL, site, clean[site][: len(tokens_BL)].copy())
        if not np.allclose(found_BLC, expected_BLC, rtol=SAME, atol=SAME):
            off = float(np.abs(found_BLC - expected_BLC).max())
            raise AdapterError(
                f"A clean run that goes on from its own activations at {site} gives logits up to {off:.3g} away from "
                f"the clean ones; they must be the same within {SAME:g}. Does the model draw random numbers in "
                f"evaluation mode, or does `resume` leave something out after {site}?"
            )


def _read_readings(cell: CellView, read: _Read, params: Params) -> list[Reading]:
    """How many pairs stand behind a read, and the logit differences there before any are left out."""
    at: dict[str, Coordinate] = {"read": read.name}
    kept, total, n = int(read.kept_B.sum()), len(read.pairs.tokens_BL), len(read.rows_B)
    readings = [
        Reading("pairs", float(kept), dict(at)),
        Reading("pairs_left_out", float(total - kept), dict(at)),
    ]
    controls = {"clean": read.clean_B, "corrupt": read.corrupt_B}
    if not n:
        return readings + [undefined("logit_difference", "no_pairs", at={**at, "control": name}) for name in controls]
    resamples = Resamples(n, cell.rng(f"patching.differences.{read.name}"), params.draws)
    for name, value_B in controls.items():
        value, draws = float(value_B.mean()), resamples.means(value_B)
        readings.append(estimate("logit_difference", value, draws, at={**at, "control": name}, n=n, exact=(0.0,)))
    return readings


def _recoveries(cell: CellView, read: _Read, found: Mapping[str, Float64], params: Params) -> list[Reading]:
    """Recovery at every site, from that of the pairs that are kept (B,)."""
    kept = int(read.kept_B.sum())
    resamples = Resamples(kept, cell.rng(f"patching.resamples.{read.name}"), params.draws) if kept else None
    trivial = _trivial(read, found)
    readings: list[Reading] = []
    for site, value_B in found.items():
        at: dict[str, Coordinate] = {"site": site, "read": read.name}
        at |= {"trivial": "true"} if site in trivial else {}
        if resamples is None or not np.isfinite(value_B).all():
            readings.append(undefined("recovery", "logits_not_finite" if kept else "no_pairs", at=at))
            continue
        readings.append(estimate("recovery", float(value_B.mean()), resamples.means(value_B), at=at, n=kept))
    return readings


def _trivial(read: _Read, found: Mapping[str, Float64]) -> set[str]:
    """The sites whose recovery is fixed in any causal model whose residual stream is all that passes on.

    At the last site nothing moves between positions any more: 1 at the patched position, 0 elsewhere. Where no earlier
    token differs, a patch at any site makes everything up to the patched position clean: 1 there. Where no other token
    does, a patch at the first site makes everything clean. A model that shows something else says something of itself.
    """
    first, *_, last = found
    own = read.name == READS[0]
    clean_again = list(found)[:-1] if own and read.pairs.first else [first] if read.pairs.alone else []
    trivial: set[str] = set()
    for sites, given in (([last], 1.0 if own else 0.0), (clean_again, 1.0)):
        if all((np.abs(found[site] - given) <= _AS_GIVEN).all() for site in sites):
            trivial |= set(sites)
    return trivial


def _without_pairs(cell: CellView, reason: str) -> list[Reading]:
    """Every reading of a task that has no corruption, undefined."""
    readings: list[Reading] = []
    for read in READS:
        at: dict[str, Coordinate] = {"read": read}
        readings += [undefined(metric, reason, at=at) for metric in ("pairs", "pairs_left_out")]
        readings += [undefined("logit_difference", reason, at={**at, "control": c}) for c in ("clean", "corrupt")]
        readings += [undefined("recovery", reason, at={**at, "site": site}) for site in cell.adapter.sites]
    return readings
