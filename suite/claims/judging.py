"""From claims and results to verdicts. An interval decides: all of it must lie on one side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..measure.statistics import Interval, sign_flip_test
from ..runner.seeds import over_pairs
from ..spec.results import Result, SuiteRecord
from ..spec.schema import Claim, ClaimsSpec, Expectation, MetricReference
from .commands import Missing, command
from .evidence import Evidence, Results, interval_over_seeds
from .places import Places
from .verdicts import Part, Verdict, VerdictWord
from .wording import apart, counted, expected_in_words, left_out, metric_in_words, not_comparable

__all__ = ["judge"]

_MOST_SEEDS = 20


def judge(
    claims: ClaimsSpec, results: Sequence[Result], record: SuiteRecord, *, folder: Path | None = None
) -> list[Verdict]:
    """Judge every claim of a file on the results of one suite.

    Parameters
    ----------
    claims : ClaimsSpec
    results : sequence of Result
        Of the suite.
    record : SuiteRecord
        The suite.
    folder : Path, optional
        The run folder, for the commands that would measure what is missing.
    """
    found, places = Results(results, record), Places(results)
    verdicts: list[Verdict] = []
    for claim in claims.claims:
        judged = _Judge(claim, found, places)
        verdict = judged.verdict()
        if judged.missing:
            verdict = replace(verdict, command=command(judged.missing, claims, record, folder))
        verdicts.append(verdict)
    return verdicts


class _Judge:
    """Judges one claim."""

    def __init__(self, claim: Claim, results: Results, places: Places) -> None:
        self._claim = claim
        self._results = results
        self._places = places
        self.missing: list[Missing] = []
        self._p: list[tuple[float, float]] = []
        self._lowered = False
        self._fewest: int | None = None

    def verdict(self) -> Verdict:
        measured = [part for each in self._claim.expectations for part in self._parts(each)]
        word = _word_of(measured)
        beside = list(self._beside()) if self._claim.beside is not None else []
        p, smallest = max(self._p, default=(None, None))
        return Verdict(
            claim=self._claim,
            verdict=word,
            badge="partially solved" if self._lowered else None,
            measured=measured,
            beside=beside,
            p=p,
            smallest_p=smallest,
            why=self._why(word, measured, smallest),
            command=None,
        )

    def _parts(self, expectation: Expectation) -> Iterator[Part]:
        for task in _listed(expectation.task) or self._results.tasks:
            if expectation.order is not None:
                for earlier, later in itertools.combinations(expectation.order, 2):
                    for first, second in itertools.product(earlier, later):
                        yield self._difference(expectation, (first, task), (second, task))
                continue
            for model in _listed(expectation.model) or self._results.models:
                if expectation.more_than is not None:
                    other = expectation.more_than
                    pair = (model, task), (other.model or model, other.task or task)
                    same = (other.metric, other.at_within(expectation)) == (expectation.metric, expectation.at)
                    # Of all the models, the one that the others are compared with is not compared with itself.
                    if not (same and pair[0] == pair[1]):
                        yield self._difference(expectation, *pair)
                else:
                    yield self._single(expectation, model, task)

    def _evidence(
        self, metric: str, model: str, task: str, at: dict[str, str | int], expectation: Expectation | None
    ) -> Evidence:
        found = self._results.evidence(
            metric, model, task, at, expectation=expectation, required_skill=self._claim.required_skill
        )
        if found.status == "not_measured":
            self.missing.append((model, task, metric.partition(".")[0]))
        elif not found.values:
            over = expectation.over if expectation is not None else None
            absent = self._places.absent(metric, model, task, at, over)
            if absent is not None:
                found = Evidence({}, "not_measured", absent)
        self._lowered = self._lowered or found.below_gate
        return found

    def _single(self, expectation: Expectation, model: str, task: str) -> Part:
        found = self._evidence(expectation.metric, model, task, expectation.at, expectation)
        label = f"{model} · {task}: {metric_in_words(expectation.metric, expectation.at)}"
        expected, threshold = expected_in_words(expectation)
        values = found.values
        if not values:
            return Part(label, model, task, expected=expected, status=found.status, reason=found.reason)
        self._count(len(values))
        metrics = [metric for _, metric in sorted(found.metrics.items())]
        words = [value for value in values if isinstance(value, str)]
        numbers = [value for value in values if not isinstance(value, str)]
        if expectation.words is not None and not numbers:
            return _word_part(label, model, task, expectation.words, words, expected)
        if expectation.words is not None or words:
            reason = not_comparable(values, "a number" if expectation.words is None else "a word")
            return Part(label, model, task, expected=expected, status="undefined", reason=reason)
        interval, value = interval_over_seeds(metrics), float(np.mean(numbers))
        if expectation.not_significant or (isinstance(expectation.equals, float) and expectation.equals != 0.0):
            self._test(numbers)
        holds = _holds(expectation, interval)
        return Part(
            label,
            model,
            task,
            value=value,
            low=interval.low,
            high=interval.high,
            n_seeds=len(numbers),
            expected=expected,
            threshold=threshold,
            holds=holds,
            per_seed=list(numbers),
            reason=_undecided(interval, holds) or left_out(found),
        )

    def _difference(self, expectation: Expectation, one: tuple[str, str], other: tuple[str, str]) -> Part:
        """The first minus the second, paired by seed."""
        reference = expectation.more_than or MetricReference(metric=expectation.metric, at=expectation.at)
        metric, at = reference.metric, reference.at_within(expectation)
        first = self._evidence(expectation.metric, *one, expectation.at, expectation)
        second = self._evidence(metric, *other, at, expectation)
        what = f"{one[0]} · {one[1]}: {metric_in_words(expectation.metric, expectation.at)}"
        label = f"{what} minus {other[0]} · {other[1]}"
        label += "" if metric == expectation.metric and at == expectation.at else f": {metric_in_words(metric, at)}"
        margin = expectation.tolerance
        expected = f"above {-margin:g}" if margin else "above 0"
        words = [value for value in (*first.values, *second.values) if isinstance(value, str)]
        if words:
            reason = not_comparable(words, "a number")
            return Part(label, *one, expected=expected, status="undefined", reason=reason)
        seeds = sorted(first.metrics.keys() & second.metrics.keys())
        pairs = [(first.metrics[seed], second.metrics[seed]) for seed in seeds]
        numbers = [a.number - b.number for a, b in pairs]
        if not seeds or not all(math.isfinite(number) for number in numbers):
            worst = first if first.status != "ok" else second
            reason = worst.reason or "no seed has both numbers"
            return Part(label, *one, expected=expected, status=worst.status, reason=reason)
        self._count(len(seeds))
        self._test(numbers)
        interval = over_pairs(pairs)
        holds = _above(interval, -margin)
        return Part(
            label,
            *one,
            value=float(np.mean(numbers)),
            low=interval.low,
            high=interval.high,
            n_seeds=len(seeds),
            expected=expected,
            threshold=-margin if margin else 0.0,
            holds=holds,
            per_seed=list(numbers),
            reason=_undecided(interval, holds) or left_out(first) or left_out(second),
        )

    def _beside(self) -> Iterator[Part]:
        """The control, for every model and task of the claim's first expectation."""
        reference, expectation = self._claim.beside, self._claim.expect
        assert reference is not None
        at, skill = reference.at_within(expectation), self._claim.required_skill
        ordered = [model for group in expectation.order or [] for model in group]
        models = _listed(reference.model or expectation.model) or ordered or self._results.models
        for task in _listed(reference.task or expectation.task) or self._results.tasks:
            for model in models:
                found = self._results.evidence(reference.metric, model, task, at, required_skill=skill)
                label = f"{model} · {task}: {metric_in_words(reference.metric, at)}"
                values = found.values
                numbers = [float(value) for value in values if not isinstance(value, str)]
                if not values:
                    yield Part(label, model, task, status=found.status, reason=found.reason)
                elif not numbers:
                    words = [str(value) for value in values]
                    yield Part(label, model, task, value=counted(words), n_seeds=len(words), per_seed=list(words))
                else:
                    interval = interval_over_seeds([metric for _, metric in sorted(found.metrics.items())])
                    mean = float(np.mean(numbers))
                    yield Part(
                        label, model, task, mean, interval.low, interval.high, len(numbers), per_seed=list(numbers)
                    )

    def _count(self, seeds: int) -> None:
        self._fewest = seeds if self._fewest is None else min(self._fewest, seeds)

    def _test(self, differences: Sequence[float]) -> None:
        if 2 <= len(differences) <= _MOST_SEEDS:
            test = sign_flip_test(np.array(differences))
            self._p.append((test.p, test.smallest))

    def _why(self, word: VerdictWord, parts: Sequence[Part], smallest: float | None) -> str:
        said: list[str] = []
        if not parts:
            said.append("the suite has no other model or task to compare with")
        elif word != "reproduced":
            wrong = [
                part for part in parts if (part.holds is False if word == "not_reproduced" else part.holds is None)
            ]
            if word == "not_measured":
                wrong = [part for part in wrong if part.status == "not_measured"]
                missing = f"{len(wrong)} of {len(parts)} numbers {'is' if len(wrong) == 1 else 'are'} missing"
                said += [missing] if len(parts) > 1 else []
                said += [str(part.reason) for part in wrong[:1]]
            else:
                said += [f"{part.label}: {part.reason or apart(part)}" for part in wrong[:3]]
                said += [f"and {len(wrong) - 3} more"] if len(wrong) > 3 else []
        if self._fewest == 1:
            said.append("one seed: intervals cover the choice of sequences only")
        elif smallest is not None and smallest > 0.05:
            said.append(f"with {self._fewest} seeds no p below {smallest:.3g} is possible")
        return "; ".join(said)


def _word_of(parts: Sequence[Part]) -> VerdictWord:
    if any(part.holds is False for part in parts):
        return "not_reproduced"
    if not parts or any(part.status == "not_measured" for part in parts):
        return "not_measured"
    return "reproduced" if all(part.holds for part in parts) else "inconclusive"


def _word_part(label: str, model: str, task: str, wanted: list[str], words: list[str], expected: str) -> Part:
    right = sum(word in wanted for word in words)
    holds = True if right == len(words) else False if right == 0 else None
    reason = None if holds is not None else f"{right} of {len(words)} seeds"
    return Part(
        label,
        model,
        task,
        value=counted(words),
        n_seeds=len(words),
        expected=expected,
        holds=holds,
        per_seed=list(words),
        reason=reason,
    )


def _holds(expectation: Expectation, interval: Interval) -> bool | None:
    """Whether all of the interval is as expected (True), none of it (False), or some of it (None)."""
    low, high = interval.low, interval.high
    if low is None or high is None:
        return None
    if expectation.not_significant:
        return low <= 0 <= high
    if expectation.at_least is not None:
        return True if low >= expectation.at_least else False if high < expectation.at_least else None
    if expectation.at_most is not None:
        return True if high <= expectation.at_most else False if low > expectation.at_most else None
    if isinstance(expectation.equals, int | float):
        first, last = expectation.equals - expectation.tolerance, expectation.equals + expectation.tolerance
        return True if first <= low and high <= last else False if high < first or low > last else None
    return None


def _above(interval: Interval, bound: float) -> bool | None:
    """Whether the interval lies above the bound (True) or below it (False)."""
    if interval.low is None or interval.high is None:
        return None
    return True if interval.low > bound else False if interval.high < bound else None


def _undecided(interval: Interval, holds: bool | None) -> str | None:
    if holds is not None:
        return None
    return interval.reason or ("no interval" if interval.low is None else "the interval straddles what is expected")


def _listed(names: str | list[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or [])
