"""Rows of text as an aligned table, Markdown or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

__all__ = ["aligned", "as_csv", "as_markdown"]

Row = Sequence[str]


def aligned(header: Row, rows: Sequence[Row]) -> str:
    """Columns padded with spaces, a line under the header; without trailing spaces or a last newline."""
    widths = [max(len(line[column]) for line in [header, *rows]) for column in range(len(header))]
    lines = [header, ["─" * width for width in widths], *rows]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def as_markdown(header: Row, rows: Sequence[Row]) -> str:
    """A Markdown table; pipes and line breaks in cells cannot break it."""

    def line(cells: Row) -> str:
        return (
            "| " + " | ".join(" ".join(cell.replace("\\", "\\\\").replace("|", "\\|").split()) for cell in cells) + " |"
        )

    return "\n".join([line(header), line(["---"] * len(header)), *(line(row) for row in rows)])


def as_csv(header: Row, rows: Sequence[Sequence[object]]) -> str:
    """Comma-separated values with a header; None is an empty cell, a true zero is 0."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
    return text.getvalue()
