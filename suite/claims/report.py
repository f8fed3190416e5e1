"""Verdicts as text: a table, Markdown, CSV or JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..runner.formats import Format
from ..runner.gathered import Gathered
from ..runner.tables import aligned, as_csv, as_markdown
from ..spec.schema import ClaimsSpec
from .judging import judge
from .verdicts import Part, Verdict

__all__ = ["claims_text"]

_MARKS = {True: "holds", False: "does not hold", None: "undecided"}


def claims_text(specs: Sequence[ClaimsSpec], suites: Sequence[Gathered], folder: Path, format: Format) -> str:
    """Every claims file judged on every suite of a run folder.

    Parameters
    ----------
    specs : sequence of ClaimsSpec
    suites : sequence of Gathered
    folder : Path
        The run folder, as it goes into commands.
    format : Format
    """
    judged = [
        (spec, suite, judge(spec, suite.results, suite.record, folder=folder)) for spec in specs for suite in suites
    ]
    if format is Format.JSON:
        found = [
            {
                "claims": spec.name,
                "suite": suite.record.suite["name"],
                "identity": suite.record.identity,
                "verdicts": [_plain(each) for each in verdicts],
            }
            for spec, suite, verdicts in judged
        ]
        return json.dumps({"claims": found}, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    if format is Format.CSV:
        header = ["claims", "suite", "id", "source", "claim_status", "verdict", "badge", "part", "expected"]
        header += ["value", "low", "high", "seeds", "holds", "status", "p", "smallest_p", "why", "command"]
        rows = [row for spec, suite, verdicts in judged for each in verdicts for row in _csv_rows(spec, suite, each)]
        return as_csv(header, rows)
    return "\n".join(_table(spec, _on(suite, suites), verdicts, format) for spec, suite, verdicts in judged)


def _on(suite: Gathered, suites: Sequence[Gathered]) -> str:
    """The suite's name, and its identity where another one has that name."""
    names = [other.record.suite["name"] for other in suites]
    name = str(suite.record.suite["name"])
    return name if names.count(name) == 1 else f"{name} ({suite.record.identity})"


def _table(spec: ClaimsSpec, on: str, verdicts: Sequence[Verdict], format: Format) -> str:
    counts = Counter(verdict.verdict for verdict in verdicts)
    counted = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in counts.most_common())
    title = f"{spec.title} · on {on}: {counted}"
    header = ["claim", "source", "expected", "measured [95 % interval]", "verdict"]
    rows = [row for verdict in verdicts for row in _rows(verdict)]
    if format is Format.MARKDOWN:
        notes = "".join(f"- `{each.claim.id}`: {note}\n" for each in verdicts for note in _notes(each))
        return f"### {title}\n\n{as_markdown(header, rows)}\n\n{notes}"
    notes = "".join(f"{each.claim.id}: {note}\n" for each in verdicts for note in _notes(each))
    return f"{title}\n\n{aligned(header, rows)}\n\n{notes}"


def _rows(verdict: Verdict) -> list[list[str]]:
    """One row for each part; what belongs to the claim stands in the first."""
    claim = verdict.claim
    word = verdict.verdict.replace("_", " ") + (f" ({verdict.badge})" if verdict.badge else "")
    name = claim.id + (" (withdrawn)" if claim.status == "withdrawn" else "")
    source = " ".join(claim.source[key] for key in ("paper", "place") if key in claim.source)
    parts = [part for part in verdict.measured if part.status != "not_measured"] or verdict.measured[:1]
    rows = [[name, source, _expected(parts[0]) if parts else "", _measured(parts[0]) if parts else "–", word]]
    rows += [["", "", _expected(part), _measured(part), ""] for part in parts[1:]]
    return rows + [["", "", "beside", _measured(part), ""] for part in verdict.beside if part.value is not None]


def _expected(part: Part) -> str:
    return f"{part.expected}: {_MARKS[part.holds]}" if part.value is not None else str(part.expected)


def _measured(part: Part) -> str:
    if part.value is None:
        return f"{part.label}: – ({part.status.replace('_', ' ')})"
    if isinstance(part.value, str):
        return f"{part.label} = {part.value}"
    ends = "" if part.low is None or part.high is None else f" [{part.low:.3g}, {part.high:.3g}]"
    return f"{part.label} = {part.value:.3g}{ends}"


def _notes(verdict: Verdict) -> list[str]:
    notes = [verdict.why] if verdict.why else []
    if verdict.claim.replaced_by is not None:
        notes.append(f"its authors withdrew it; see {verdict.claim.replaced_by}")
    if verdict.p is not None:
        notes.append(f"exact sign-flip p = {verdict.p:.3g}")
    if verdict.command:
        # What starts with # is no command: what must be there before one can be given.
        is_command = not verdict.command.startswith("#")
        notes.append(f"run: {verdict.command}" if is_command else verdict.command.removeprefix("# "))
    return notes


def _csv_rows(spec: ClaimsSpec, suite: Gathered, verdict: Verdict) -> list[list[Any]]:
    claim = verdict.claim
    source = " ".join(claim.source[key] for key in ("paper", "place", "figure") if key in claim.source)
    common = [spec.name, suite.record.suite["name"], claim.id, source, claim.status, verdict.verdict, verdict.badge]
    rest = [verdict.p, verdict.smallest_p, verdict.why, verdict.command]
    return [
        [*common, p.label, p.expected, p.value, p.low, p.high, p.n_seeds, p.holds, p.status, *rest]
        for p in verdict.measured
    ]


def _plain(verdict: Verdict) -> dict[str, Any]:
    return {
        "claim": verdict.claim.model_dump(mode="json", exclude_none=True, exclude_defaults=True),
        "verdict": verdict.verdict,
        "badge": verdict.badge,
        "measured": [asdict(part) for part in verdict.measured],
        "beside": [asdict(part) for part in verdict.beside],
        "p": verdict.p,
        "smallest_p": verdict.smallest_p,
        "why": verdict.why,
        "command": verdict.command,
    }
