"""The verdicts as rows of a table: one a number that decides a claim, one with no number for a claim without any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..suite.claims.verdicts import Part, Verdict
from .judging import Judged
from .text import clean

__all__ = ["CLAIM_COLUMNS", "claim_rows"]

CLAIM_COLUMNS: dict[str, pa.DataType] = {
    "board": pa.string(),
    "claims": pa.string(),
    "claim": pa.string(),
    "says": pa.string(),
    "paper": pa.string(),
    "place": pa.string(),
    "figure": pa.string(),
    "claim_status": pa.string(),
    "verdict": pa.string(),
    "badge": pa.string(),
    "p": pa.float64(),
    "smallest_p": pa.float64(),
    "why": pa.string(),
    "command": pa.string(),
    "role": pa.string(),
    "part": pa.string(),
    "model": pa.string(),
    "task": pa.string(),
    "value": pa.float64(),
    "word": pa.string(),
    "low": pa.float64(),
    "high": pa.float64(),
    "seeds": pa.int64(),
    "expected": pa.string(),
    "holds": pa.bool_(),
    "status": pa.string(),
    "reason": pa.string(),
}
Row = tuple[Any, ...]


def claim_rows(judged: Sequence[Judged]) -> list[Row]:
    """Every claim of every board; `role` says whether a number decides the claim or stands beside it."""
    rows: list[Row] = []
    for found in judged:
        for verdict in found.verdicts:
            common = _common(found, verdict)
            parts = [("decides", part) for part in verdict.measured] + [("beside", part) for part in verdict.beside]
            rows += [(*common, role, *_part(part)) for role, part in parts]
            if not parts:
                rows.append((*common, *[None] * (len(CLAIM_COLUMNS) - len(common))))
    return rows


def _common(found: Judged, verdict: Verdict) -> Row:
    claim = verdict.claim
    return (
        found.board.slug,
        found.claims.name,
        claim.id,
        clean(claim.says),
        *(_text(claim.source.get(key)) for key in ("paper", "place", "figure")),
        claim.status,
        verdict.verdict,
        _text(verdict.badge),
        verdict.p,
        verdict.smallest_p,
        _text(verdict.why),
        _text(verdict.command),
    )


def _part(part: Part) -> Row:
    is_word = isinstance(part.value, str)
    return (
        _text(part.label),
        _text(part.model),
        _text(part.task),
        None if is_word else part.value,
        clean(part.value) if isinstance(part.value, str) else None,
        part.low,
        part.high,
        part.n_seeds,
        _text(part.expected),
        part.holds,
        part.status,
        _text(part.reason),
    )


def _text(value: object) -> str | None:
    return None if value in (None, "") else clean(str(value))
