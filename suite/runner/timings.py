"""What measuring took: each protocol's wall time beside that of the forward passes it needs. Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median

from ...tasks.errors import LayerstateError
from ..spec.results import Result
from .formats import Format
from .store import read_results
from .tables import aligned, as_csv, as_markdown

__all__ = ["timings_text"]

HEADER = ["protocol", "model", "measurements", "wall_s", "forward_s", "wall_over_forward", "peak_memory_mb"]


def timings_text(out: Path, format: Format, *, tell: Callable[[str], None] = lambda _text: None) -> str:
    """One row a protocol and model, medians over its measurements in a run folder.

    ``wall_s`` counts what other protocols of the same run had made before (``forward_s`` does too), so that their ratio
    is that of the protocol by itself: 1 would be a protocol whose mathematics costs nothing.

    Raises
    ------
    LayerstateError
        If nothing was measured in the folder.
    """
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in read_results(out, tell):
        groups.setdefault((result.protocol, result.cell.model), []).append(result)
    if not groups:
        raise LayerstateError(f"{out} holds no measurement; layerstate run SUITE --out {out} makes some.")
    rows = [_row(*key, found) for key, found in sorted(groups.items())]
    if format is Format.CSV:
        return as_csv(HEADER, rows)
    if format is Format.JSON:
        found = [dict(zip(HEADER, row, strict=True)) for row in rows]
        return json.dumps({"timings": found}, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    shown = [[str(value) for value in row[:3]] + [_shown(value) for value in row[3:]] for row in rows]
    titles = [name.replace("_", " ") for name in HEADER]
    return (as_markdown if format is Format.MARKDOWN else aligned)(titles, shown) + "\n"


def _row(protocol: str, model: str, found: list[Result]) -> list[str | int | float | None]:
    wall = median(result.seconds + result.shared_seconds for result in found)
    forward = median(result.forward_seconds for result in found)
    ratio = wall / forward if forward > 0 else None
    return [protocol, model, len(found), wall, forward, ratio, max(result.peak_memory_mb for result in found)]


def _shown(value: str | int | float | None) -> str:
    return "–" if value is None else f"{float(value):.{0 if float(value) >= 100 else 2}f}"
