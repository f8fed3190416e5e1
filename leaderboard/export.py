"""Every number as tidy tables: one row a metric, coordinate, model, task and seed; and one a part of a claim."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ..suite.spec.results import Metric, Result
from .boards import Board, Entry
from .claims_table import CLAIM_COLUMNS, claim_rows
from .site import Site
from .text import clean

__all__ = ["tables"]

_MEASUREMENT: dict[str, pa.DataType] = {
    "board": pa.string(),
    "model": pa.string(),
    "model_identity": pa.string(),
    "family": pa.string(),
    "rank": pa.int64(),
    "task": pa.string(),
    "structure": pa.string(),
    "seed": pa.int64(),
    "protocol": pa.string(),
    "protocol_version": pa.int64(),
    "gate_passed": pa.bool_(),
    "measurement": pa.string(),
    "cell": pa.string(),
}
_METRIC: dict[str, pa.DataType] = {
    "metric": pa.string(),
    "value": pa.float64(),
    "word": pa.string(),
    "low": pa.float64(),
    "high": pa.float64(),
    "n": pa.int64(),
    "unit": pa.string(),
    "direction": pa.string(),
    "status": pa.string(),
    "reason": pa.string(),
}
Row = tuple[Any, ...]


def tables(site: Site) -> dict[str, bytes]:
    """Files by their address: CSV, JSON and Parquet, all with the same rows and columns.

    In `metrics`, coordinates are columns named `at_<coordinate>`, empty where a metric has no such coordinate; in
    `claims`, a claim has a row for each number that decides it.
    """
    measured = [
        (board, entry, entry.results[key])
        for board in site.boards
        for entry in board.entries
        for key in sorted(entry.results)
    ]
    coordinates = sorted({name for _, _, result in measured for metric in result.metrics for name in metric.at})
    rows = [
        (*common, *_numbers(metric), *(_place(metric, name) for name in coordinates))
        for board, entry, result in measured
        for common in [_common(board, entry, result)]
        for metric in result.metrics
    ]
    columns = {**_MEASUREMENT, **_METRIC, **{f"at_{name}": pa.string() for name in coordinates}}
    return _formats("metrics", rows, columns) | _formats("claims", claim_rows(site.judged), CLAIM_COLUMNS)


def _formats(name: str, rows: list[Row], columns: dict[str, pa.DataType]) -> dict[str, bytes]:
    """The same rows in the three formats."""
    table = _table(rows, columns)
    return {
        f"data/{name}.csv": _csv(table),
        f"data/{name}.json": _json(rows, table.column_names),
        f"data/{name}.parquet": _parquet(table),
    }


def _common(board: Board, entry: Entry, result: Result) -> Row:
    return (
        board.slug,
        entry.name,
        entry.identity,
        clean(entry.family),
        entry.rank,
        result.cell.task,
        board.tasks[result.cell.task].structure,
        result.cell.seed,
        result.protocol,
        result.protocol_version,
        result.gate.passed,
        result.identity,
        result.cell.identity,
    )


def _numbers(metric: Metric) -> Row:
    is_word = isinstance(metric.value, str)
    return (
        metric.metric,
        None if is_word else metric.value,
        clean(metric.value) if isinstance(metric.value, str) else None,
        metric.low,
        metric.high,
        metric.n,
        clean(metric.unit),
        metric.direction,
        metric.status,
        None if metric.reason is None else clean(metric.reason),
    )


def _place(metric: Metric, name: str) -> str | None:
    place = metric.at.get(name)
    return None if place is None else clean(str(place))


def _csv(table: pa.Table) -> bytes:
    """CSV in which text that a spreadsheet would run as a formula has an apostrophe before it."""
    columns = [_harmless(column) if column.type == pa.string() else column for column in table.columns]
    sink = io.BytesIO()
    options = pa_csv.WriteOptions(quoting_style="needed", quoting_header="none")
    pa_csv.write_csv(pa.Table.from_arrays(columns, names=table.column_names), sink, options)
    return sink.getvalue()


def _harmless(column: pa.ChunkedArray) -> pa.ChunkedArray:
    guarded = pc.call_function("binary_join_element_wise", [pa.scalar("'"), column, pa.scalar("")])
    options = pc.MatchSubstringOptions(r"^[=+@\t\r-]")
    return pc.call_function("if_else", [pc.call_function("match_substring_regex", [column], options), guarded, column])


def _json(rows: list[Row], columns: list[str]) -> bytes:
    encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode

    def lines() -> Iterator[str]:
        yield '{"columns": ' + encode(columns) + ',\n"rows": [\n'
        for number, row in enumerate(rows):
            yield ("" if number == 0 else ",\n") + encode(row)
        yield "\n]}\n"

    return "".join(lines()).encode("ascii")


def _table(rows: list[Row], columns: dict[str, pa.DataType]) -> pa.Table:
    values = list(zip(*rows, strict=True)) or [() for _ in columns]
    arrays = [pa.array(column, type=kind) for column, kind in zip(values, columns.values(), strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(list(columns.items())))


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()
