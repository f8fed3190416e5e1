"""The claims page: what papers say, and what the boards say of it, one row a claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ..suite.claims.verdicts import Part, Verdict
from ..suite.spec.schema import Claim
from .axes import plainly
from .intervention_figures import p_in_words, smallest_in_words
from .judging import VERDICTS, Judged
from .site import Site
from .text import MISSING, linked, number, plural

__all__ = ["ClaimBlock", "ClaimRow", "Count", "claim_blocks", "counts_in_words"]

WIDTH, EDGE = 180.0, 6.0
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Strip:
    """A part on the claim's axis: places in pixels from the left; None where there is none."""

    value: float
    low: float | None
    high: float | None
    seeds: list[float]
    thresholds: list[float]
    zero: float | None


@dataclass(frozen=True, slots=True)
class PartRow:
    """One number or word that decides a claim."""

    label: str
    strip: Strip | None
    value: str
    interval: str
    expected: str
    mark: str
    holds: str
    note: str


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A claim with its verdict."""

    anchor: str
    claim: Claim
    source: list[Markup]
    withdrawn: bool
    replaced_by: list[tuple[str, str]]
    mark: str
    verdict: str
    badge: str
    parts: list[PartRow]
    more: list[PartRow]
    beside: list[PartRow]
    seeds: str
    p: str
    why: str
    command: str


@dataclass(frozen=True, slots=True)
class Count:
    """How many claims have a verdict."""

    mark: str
    verdict: str
    count: int


@dataclass(frozen=True, slots=True)
class ClaimBlock:
    """A claims file on a board."""

    judged: Judged
    counts: list[Count]
    rows: list[ClaimRow]
    commands: list[str]
    """What to run where nothing is measured, each line once."""


def claim_blocks(site: Site) -> list[ClaimBlock]:
    """Every claims file on every board."""
    return [_block(judged) for judged in site.judged]


def counts_in_words(judged: Judged) -> str:
    """`3 reproduced, 1 not reproduced`."""
    return ", ".join(f"{count} {plainly(verdict)}" for verdict, count in judged.counts)


def _block(judged: Judged) -> ClaimBlock:
    rows = [_row(judged, verdict) for verdict in judged.verdicts]
    return ClaimBlock(
        judged=judged,
        counts=[Count(VERDICTS[name], plainly(name), count) for name, count in judged.counts],
        rows=rows,
        commands=list(dict.fromkeys(row.command for row in rows if row.command)),
    )


def _row(judged: Judged, verdict: Verdict) -> ClaimRow:
    claim = verdict.claim
    everything = [*verdict.measured, *verdict.beside]
    places = [end for part in everything for end in _ends(part)]
    span = (min(places), max(places)) if places else (0.0, 1.0)
    parts = [_part_row(part, *span) for part in verdict.measured]
    return ClaimRow(
        anchor=f"{judged.slug}-{claim.id}",
        claim=claim,
        source=[linked(claim.source[key]) for key in ("paper", "place", "figure") if key in claim.source],
        withdrawn=claim.status == "withdrawn",
        replaced_by=[(other, f"{judged.slug}-{other}") for other in _replacements(judged, claim)],
        mark=VERDICTS[verdict.verdict],
        verdict=plainly(verdict.verdict),
        badge=verdict.badge or "",
        parts=parts[:_SHOWN],
        more=parts[_SHOWN:],
        beside=[_part_row(part, *span) for part in verdict.beside],
        seeds=_seeds(verdict.measured),
        p=_p(verdict),
        why=verdict.why or "",
        command=verdict.command or "",
    )


def _replacements(judged: Judged, claim: Claim) -> list[str]:
    """The claims of the file that stand in its place."""
    known = {other.id for other in judged.claims.claims}
    found = getattr(claim, "replaced_by", None) or []
    return [other for other in ([found] if isinstance(found, str) else found) if other in known]


def _p(verdict: Verdict) -> str:
    said = [] if verdict.p is None else [p_in_words(verdict.p)]
    said += [] if verdict.smallest_p is None else [smallest_in_words(verdict.smallest_p)]
    return "; ".join(word for word in said if word)


def _seeds(parts: Sequence[Part]) -> str:
    """How many seeds the numbers rest on."""
    counts = sorted({part.n_seeds for part in parts if part.n_seeds})
    if not counts:
        return ""
    return plural(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def _part_row(part: Part, low: float, high: float) -> PartRow:
    interval = ""
    if part.low is not None and part.high is not None:
        interval = f"{_shown(part.low)} to {_shown(part.high)}"
    said = [plainly(part.status)] if part.status != "ok" else []
    if part.reason:
        said.append(part.reason)
    return PartRow(
        label=part.label,
        strip=_strip(part, low, high),
        value=_shown(part.value),
        interval=interval,
        expected=_expected(part),
        mark={True: "✓", False: "✗", None: "–"}[part.holds],
        holds={True: "holds", False: "does not hold", None: "not decided"}[part.holds],
        note="; ".join(said),
    )


def _shown(value: float | str | None) -> str:
    if value is None:
        return MISSING
    # A sum that cancels leaves a sliver, which is 0.
    return value if isinstance(value, str) else number(round(value, 9), "")


def _expected(part: Part) -> str:
    return "" if part.expected is None else str(part.expected)


def _strip(part: Part, low: float, high: float) -> Strip | None:
    if part.value is None or isinstance(part.value, str):
        return None

    def across(value: float) -> float:
        return round(EDGE + (WIDTH - 2 * EDGE) * ((value - low) / (high - low) if high > low else 0.5), 1)

    return Strip(
        value=across(part.value),
        low=None if part.low is None else across(part.low),
        high=None if part.high is None else across(part.high),
        seeds=[across(value) for value in _numbers(part.per_seed)],
        thresholds=[across(value) for value in _thresholds(part)],
        zero=across(0.0) if low < 0 < high else None,
    )


def _ends(part: Part) -> list[float]:
    """Everything that must be on the axis."""
    if part.value is None or isinstance(part.value, str):
        return []
    own = [value for value in (part.value, part.low, part.high) if value is not None]
    return [*own, *_numbers(part.per_seed), *_thresholds(part)]


def _numbers(values: Sequence[float | str | None]) -> list[float]:
    return [float(value) for value in values if value is not None and not isinstance(value, str)]


def _thresholds(part: Part) -> list[float]:
    if part.threshold is not None:
        return [part.threshold]
    return [float(part.expected)] if isinstance(part.expected, (int, float)) else []
