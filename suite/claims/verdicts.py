"""What judging a claim comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..spec.schema import Claim

__all__ = ["Part", "Verdict", "VerdictWord"]

VerdictWord = Literal["reproduced", "not_reproduced", "inconclusive", "not_measured"]


@dataclass(frozen=True)
class Part:
    """One number (or word) that decides a claim: a metric of one model on one task, over its seeds.

    Attributes
    ----------
    label : str
        What it is, in words.
    model, task : str
    value : float, str or None
        Mean over seeds, or the words with their counts; None where there is none.
    low, high : float or None
        95 % interval, over seeds where there are several, else over sequences.
    n_seeds : int
        Seeds with a usable value.
    expected : str
        What the claim expects, in words.
    threshold : float or None
        The number that it is compared with, if it is one.
    holds : bool or None
        Whether it is as expected; None where that cannot be told.
    per_seed : list
        The single seeds' values, in their order.
    status : str
        ``ok``, ``not_measured``, ``below_gate``, ``undefined`` or ``not_converged``.
    reason : str or None
        Why it holds no value, or cannot be told.
    """

    label: str
    model: str
    task: str
    value: float | str | None = None
    low: float | None = None
    high: float | None = None
    n_seeds: int = 0
    expected: str | float | None = None
    holds: bool | None = None
    per_seed: list[float | str | None] = field(default_factory=list[float | str | None])
    status: str = "ok"
    reason: str | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class Verdict:
    """A claim and what the results say of it.

    Attributes
    ----------
    claim : Claim
    verdict : str
        ``reproduced``: every part holds; ``not_reproduced``: one is the other way; ``not_measured``: one is missing;
        ``inconclusive``: one cannot be told, an interval straddles, say.
    badge : str or None
        ``partially solved`` where cells below the suite's gate were used.
    measured, beside : list of Part
        What decides it, and the control beside it.
    p, smallest_p : float or None
        Of the exact sign-flip test over seeds where a difference or an effect is claimed, and the smallest that so many
        seeds can give.
    why : str
    command : str or None
        What to run where something is missing.
    """

    claim: Claim
    verdict: VerdictWord
    badge: str | None
    measured: list[Part]
    beside: list[Part]
    p: float | None
    smallest_p: float | None
    why: str
    command: str | None
