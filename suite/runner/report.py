"""The report of a run folder: one table a suite, one row a model and task, seeds taken together. Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from ...tasks.errors import LayerstateError
from ..spec.results import CellKey, Result, SuiteRecord
from .aggregate import COLUMNS, NOT_MEASURED, Column, Summary, extra_columns, summarise
from .formats import Format
from .store import CellFailures, read_failures, read_results, read_suites, results_of
from .tables import aligned, as_csv, as_markdown

__all__ = ["Report", "report_text", "suite_reports"]


class Report:
    """The table of one suite.

    Attributes
    ----------
    record : SuiteRecord
        The suite.
    columns : list of Column
        Its metrics.
    rows : list of dict
        ``model``, ``task``, ``seeds``, ``gate``, ``status``, ``failures`` and a `Summary` for each column's key.
    """

    def __init__(self, record: SuiteRecord, columns: list[Column], rows: list[dict[str, Any]]) -> None:
        self.record = record
        self.columns = columns
        self.rows = rows


def report_text(
    out: Path,
    format: Format,
    *,
    only: Collection[str] | None = None,
    tell: Callable[[str], None] = lambda _text: None,
) -> str:
    """The report of a run folder as text.

    Parameters
    ----------
    out : Path
        The run folder.
    format : Format
        Table, Markdown, CSV or JSON.
    only : collection of str, optional
        Identities of the cells to show; all if left out.
    tell : callable
        Gets one sentence for each file that cannot be used.

    Raises
    ------
    LayerstateError
        If no suite was run into the folder.
    """
    reports = suite_reports(out, only=only, tell=tell)
    if format is Format.JSON:
        return (
            json.dumps(
                {"suites": [_plain(report) for report in reports]}, indent=2, allow_nan=False, ensure_ascii=False
            )
            + "\n"
        )
    if format is Format.CSV:
        return _csv(reports)
    return "\n".join(_one_table(report, format, several=len(reports) > 1) for report in reports)


def suite_reports(
    out: Path, *, only: Collection[str] | None = None, tell: Callable[[str], None] = lambda _text: None
) -> list[Report]:
    """One report a suite in the folder, by the suites' names."""
    records = read_suites(out, tell)
    if not records:
        raise LayerstateError(
            f"{out} holds no suite: it is not the folder of a `layerstate run`, or nothing was run into it."
        )
    results = {result.identity: result for result in read_results(out, tell)}
    failures = {each.cell.identity: each for each in read_failures(out, tell)}
    found = [_report(record, results_of(out, record, results, tell), failures, only) for record in records]
    return [report for report in found if report.rows]


def _report(
    record: SuiteRecord,
    results: dict[str, Result],
    failures: dict[str, CellFailures],
    only: Collection[str] | None,
) -> Report:
    groups: dict[tuple[str, str], list[CellKey]] = {}
    for cell in record.cells:
        if only is None or cell.identity in only:
            groups.setdefault((cell.model, cell.task), []).append(cell)
    columns = [column for column in COLUMNS if column.protocol in record.protocols]
    columns += extra_columns(list(results.values()), record)
    rows = [_row(record, cells, columns, results, failures) for cells in groups.values()]
    return Report(record, columns, rows)


def _row(
    record: SuiteRecord,
    cells: list[CellKey],
    columns: list[Column],
    results: dict[str, Result],
    failures: dict[str, CellFailures],
) -> dict[str, Any]:
    by_protocol: dict[str, list[Result]] = {name: [] for name in record.protocols}
    missing: set[tuple[str, str]] = set()
    wanted = {cell.identity for cell in cells}
    for entry in record.measurements:
        if entry["cell"] not in wanted:
            continue
        result = results.get(entry["identity"])
        if result is None:
            missing.add((entry["cell"], entry["protocol"]))
        else:
            by_protocol[entry["protocol"]].append(result)
    task = record.tasks[cells[0].task]
    summaries = {column.key: summarise(column, by_protocol[column.protocol], task) for column in columns}
    failed = [
        f"{each.protocol or each.stage}, seed {cell.seed}: {each.message}"
        for cell in cells
        if cell.identity in failures
        for each in failures[cell.identity].failures
        if any(where == cell.identity and each.protocol in (None, protocol) for where, protocol in missing)
    ]
    gates = {result.cell.identity: result.gate.passed for found in by_protocol.values() for result in found}
    return {
        "model": cells[0].model,
        "task": cells[0].task,
        "seeds": sorted(cell.seed for cell in cells),
        "gate": (sum(gates.values()), len(gates)),
        **summaries,
        "status": _status(len(missing), gates, summaries, failed=bool(failed)),
        "failures": failed,
    }


def _status(missing: int, gates: dict[str, bool], summaries: dict[str, Summary], *, failed: bool) -> str:
    """Why a row is not all it could be; ``ok`` if it is."""
    said: list[str] = ["failed"] if failed else []
    if missing:
        said.append(f"{missing} measurement{'s' * (missing > 1)} missing")
    below = len(gates) - sum(gates.values())
    if below:
        said.append("below_gate" if len(gates) == 1 else f"below_gate in {below} of {len(gates)} seeds")
    # Further protocols may hold for some tasks alone (grouping does); their reasons stand in the results.
    standard = {column.key for column in COLUMNS}
    absent = {key: summary.reason for key, summary in summaries.items() if summary.value is None and key in standard}
    # What was not measured is counted as missing; here stands why a measurement has no number.
    said += [f"{key}: {reason}" for key, reason in absent.items() if reason != NOT_MEASURED]
    said += [
        f"{key}: {summary.reason}" for key, summary in summaries.items() if summary.value is not None and summary.reason
    ]
    said += [f"{key}: {_not_converged(summary)}" for key, summary in summaries.items() if summary.not_converged]
    return "; ".join(said) or "ok"


def _not_converged(summary: Summary) -> str:
    """That fits behind a number did not converge, in the board's words; empty where all did."""
    if not summary.not_converged:
        return ""
    return "not converged" + (f" in {summary.not_converged} of {summary.n} seeds" if summary.n > 1 else "")


def _one_table(report: Report, format: Format, *, several: bool) -> str:
    header = ["model", "task", "seeds", *(column.title for column in report.columns), "gate", "status"]
    rows = [
        [
            row["model"],
            row["task"],
            str(len(row["seeds"])),
            *(column.show(row[column.key]) for column in report.columns),
            _gate(*row["gate"]),
            row["status"],
        ]
        for row in report.rows
    ]
    name = f"{report.record.suite['name']} ({report.record.identity[:12]})"
    notes = [f"{row['model']} · {row['task']} failed ({each})" for row in report.rows for each in row["failures"]]
    if format is Format.MARKDOWN:
        return "\n".join([f"### {name}\n\n{as_markdown(header, rows)}\n", *(f"- {note}" for note in notes)])
    return "\n".join([*([name] if several else []), aligned(header, rows), *notes, ""])


def _gate(passed: int, measured: int) -> str:
    if not measured:
        return "–"
    return ("passed" if passed else "below") if measured == 1 else f"{passed}/{measured} passed"


def _csv(reports: Sequence[Report]) -> str:
    columns = {column.key: column for report in reports for column in report.columns}
    header = ["suite", "identity", "model", "task", "seeds", "gate_passed", "gate_measured", "status", "failures"]
    for key, column in columns.items():
        header += [key, *([] if column.is_word else [f"{key}_low", f"{key}_high"]), f"{key}_note"]
    rows: list[list[Any]] = []
    for report in reports:
        for row in report.rows:
            cells: list[Any] = [report.record.suite["name"], report.record.identity, row["model"], row["task"]]
            cells += [" ".join(map(str, row["seeds"])), *row["gate"], row["status"], " | ".join(row["failures"])]
            for key, column in columns.items():
                summary: Summary = row.get(key, Summary())
                ends = [] if column.is_word else [summary.low, summary.high]
                cells += [summary.value, *ends, "; ".join(filter(None, [summary.reason, _not_converged(summary)]))]
            rows.append(cells)
    return as_csv(header, rows)


def _plain(report: Report) -> dict[str, Any]:
    rows = [
        {
            "model": row["model"],
            "task": row["task"],
            "seeds": row["seeds"],
            "gate": {"passed": row["gate"][0], "measured": row["gate"][1]},
            "status": row["status"],
            "failures": row["failures"],
            "metrics": {
                column.key: row[column.key].plain() | {"note": _not_converged(row[column.key])}
                for column in report.columns
            },
        }
        for row in report.rows
    ]
    return {"suite": report.record.suite["name"], "identity": report.record.identity, "rows": rows}
