"""From records to boards: which models are measured alike, what each of them has, and what it lacks."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ..suite.spec.results import CellKey, CellRecord, GateReading, Result, SuiteRecord
from ..suite.spec.schema import AnyModel, ModelSpec, ProtocolSpec, ReferenceModel, SuiteSpec, TaskSpec
from .read import Records, Refused, is_name
from .text import listed, number

__all__ = ["Board", "Entry", "Key", "Measured", "make_boards"]

Key = tuple[str, int, str]
"""Task, seed, protocol."""
S = TypeVar("S", TaskSpec, ProtocolSpec, AnyModel)
_TEXTS = {"title", "description", "cite", "coordinates"}
_MODEL: TypeAdapter[AnyModel] = TypeAdapter(ModelSpec)


@dataclass(slots=True)
class Measured:
    """A suite record with its specs as models, and the number of the folder it stands in."""

    folder: int
    record: SuiteRecord
    suite: SuiteSpec
    tasks: dict[str, TaskSpec]
    protocols: dict[str, ProtocolSpec]
    models: dict[str, AnyModel]


@dataclass(slots=True)
class Entry:
    """A model on a board.

    Attributes
    ----------
    name : str
        The model's name.
    identity : str
        Of board and model spec, eight hexadecimal digits: tells two models of one name apart.
    model : model spec
    family : str
        Architecture family.
    results : dict
        By task, seed and protocol.
    cells : dict
        Training records by task and seed.
    lacks : dict
        Why a measurement that the suite asks for is not there.
    asked : int
        How many measurements the suite asks for.
    unranked : list of str
        Why it has no rank; empty for a model that has one.
    rank : int or None
    """

    name: str
    identity: str
    model: AnyModel
    family: str
    results: dict[Key, Result] = field(default_factory=dict[Key, Result])
    cells: dict[tuple[str, int], CellRecord] = field(default_factory=dict[tuple[str, int], CellRecord])
    lacks: dict[Key, str] = field(default_factory=dict[Key, str])
    asked: int = 0
    unranked: list[str] = field(default_factory=list[str])
    rank: int | None = None
    _sites: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @property
    def measured(self) -> int:
        """How many of the measurements that the suite asks for are there."""
        return self.asked - len(self.lacks)

    def why_missing(self, task: str, protocol: str) -> str:
        """Why there is nothing of the protocol on the task."""
        return next((why for key, why in self.lacks.items() if (key[0], key[2]) == (task, protocol)), "not measured")

    def gates(self) -> dict[tuple[str, int], GateReading]:
        """The gate's reading of every cell that has one."""
        found: dict[tuple[str, int], GateReading] = {}
        for (task, seed, _), result in sorted(self.results.items(), key=_by_key):
            found.setdefault((task, seed), result.gate)
        return found

    def sites(self, task: str) -> list[str]:
        """The model's sites, in order."""
        if task not in self._sites:
            found = (result.sites for (name, _, _), result in sorted(self.results.items(), key=_by_key) if name == task)
            self._sites[task] = next(found, [])
        return self._sites[task]


@dataclass(slots=True)
class Board:
    """A suite and the models that were measured by it, under the same tasks and protocols.

    Attributes
    ----------
    slug : str
        Its part in addresses: the suite's name, with an identity where two boards share the name.
    suite : SuiteSpec
        Of its largest run: this says which tasks, seeds and protocols are asked for.
    tasks, protocols : dict
        Specs by name, in the suite's order.
    entries : list of Entry
        Ranked models first, in their order; then the others by name.
    """

    slug: str
    identity: str
    suite: SuiteSpec
    tasks: dict[str, TaskSpec]
    protocols: dict[str, ProtocolSpec]
    seeds: list[int]
    entries: list[Entry]

    @property
    def ranked(self) -> list[Entry]:
        """Entries that have a rank."""
        return [entry for entry in self.entries if entry.rank is not None]


def _by_key(pair: tuple[Key, Result]) -> Key:
    return pair[0]


def make_boards(records: Records) -> list[Board]:
    """Sort suites into boards, and results into their models.

    Suites of one name are one board if they share the headline, the gate, and the content of every task and protocol
    that both have. What the board asks for is said by the first source that has it, there by the run with the most
    measurements a model; so no later source can ask more of the models before it.

    Parameters
    ----------
    records : Records
        Suites whose specs are not valid, and results that no suite asks for, are added to its `refused`.

    Returns
    -------
    list of Board
        The largest first; entries are not ranked yet.
    """
    measured = [
        found for folder, record in records.suites if (found := _validated(folder, record, records.refused)) is not None
    ]
    groups: list[list[Measured]] = []
    for found in sorted(measured, key=_by_size):
        for group in groups:
            if _joins(found, group[0]):
                group.append(found)
                break
        else:
            groups.append([found])
    names = Counter(group[0].suite.name for group in groups)
    boards = [_board(group, names[group[0].suite.name] > 1, records) for group in groups]
    _name_orphans(measured, records)
    return sorted(boards, key=lambda board: (-len(board.tasks) * len(board.seeds) * len(board.protocols), board.slug))


def _validated(folder: int, record: SuiteRecord, refused: list[Refused]) -> Measured | None:
    """The record with its specs; without the models whose specs are not valid, and None if the suite itself is not."""
    where = f"suites/{record.suite['name']}-{record.identity}.json"
    try:
        found = Measured(
            folder,
            record,
            SuiteSpec.model_validate(record.suite),
            {name: _named(name, TaskSpec.model_validate(spec)) for name, spec in record.tasks.items()},
            {name: _named(name, ProtocolSpec.model_validate(spec)) for name, spec in record.protocols.items()},
            {},
        )
    except ValueError as error:
        refused.append(Refused(where, _in_words(error)))
        return None
    if not found.tasks or not found.protocols:
        refused.append(Refused(where, "it names no tasks or no protocols"))
        return None
    for name, spec in record.models.items():
        try:
            found.models[name] = _named(name, _MODEL.validate_python(spec))
        except ValueError as error:
            refused.append(Refused(where, f"the model {name!r:.80}: {_in_words(error)}"))
    return found


def _named(name: str, spec: S) -> S:
    if spec.name != name or not is_name(name):
        raise ValueError(f"the spec under {name!r:.80} is named {spec.name!r:.80}")
    return spec


def _in_words(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"its {error.title} is not valid: {place}: {first['msg']}"[:300]


def _by_size(found: Measured) -> tuple[int, int, int, str]:
    size = len(found.tasks) * len(found.protocols) * len(found.suite.seeds)
    return (found.folder, -size, -len(found.models), found.record.identity)


def _joins(found: Measured, lead: Measured) -> bool:
    one, other = found.suite, lead.suite
    return (
        (one.name, one.headline, one.gate) == (other.name, other.headline, other.gate)
        and _agree(found.record.tasks, lead.record.tasks)
        and _agree(found.record.protocols, lead.record.protocols)
    )


def _agree(part: Mapping[str, dict[str, Any]], whole: Mapping[str, dict[str, Any]]) -> bool:
    return all(name in whole and _content(spec) == _content(whole[name]) for name, spec in part.items())


def _content(spec: Mapping[str, Any]) -> str:
    """What of a spec can change a number, as text."""
    kept = {key: value for key, value in spec.items() if key not in _TEXTS}
    if isinstance(kept.get("metrics"), dict):
        kept["metrics"] = sorted(kept["metrics"])
    return json.dumps(kept, sort_keys=True, default=str)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _board(group: Sequence[Measured], shares_name: bool, records: Records) -> Board:
    lead = group[0]
    identity = _digest(
        lead.suite.name,
        lead.suite.headline,
        lead.suite.gate.model_dump_json(),
        *(f"{name}={_content(spec)}" for name, spec in sorted((lead.record.tasks | lead.record.protocols).items())),
    )
    board = Board(
        slug=f"{lead.suite.name}~{identity}" if shares_name else lead.suite.name,
        identity=identity,
        suite=lead.suite,
        tasks=lead.tasks,
        protocols=lead.protocols,
        seeds=list(lead.suite.seeds),
        entries=[],
    )
    entries: dict[str, Entry] = {}
    for found in group:
        for name, model in found.models.items():
            # A model's own title does not make it another model.
            key = _digest(identity, name, _content(found.record.models[name]))
            entry = entries.setdefault(key, Entry(name, key, model, _family(model)))
            _collect(entry, found, board, records)
    for entry in entries.values():
        _account(entry, board)
    _refuse_other_versions(list(entries.values()), board)
    board.entries = sorted(entries.values(), key=lambda entry: (entry.name, entry.identity))
    return board


def _family(model: AnyModel) -> str:
    if model.family is not None:
        return model.family
    return model.architecture.type if isinstance(model, ReferenceModel) else "own module"


def _collect(entry: Entry, found: Measured, board: Board, records: Records) -> None:
    """Put what the run has of this model into its entry, and say why the rest is not there."""
    cells = {cell.identity: cell for cell in found.record.cells if cell.model == entry.name}
    for identity, cell in cells.items():
        if identity in records.cells and records.cells[identity].cell == cell:
            entry.cells.setdefault((cell.task, cell.seed), records.cells[identity])
    for asked in found.record.measurements:
        cell = cells.get(asked["cell"])
        if cell is None or asked["protocol"] not in board.protocols:
            continue
        if cell.task not in board.tasks or cell.seed not in board.seeds:
            continue
        key = (cell.task, cell.seed, asked["protocol"])
        result = records.results.get(asked["identity"])
        if result is not None and (result.cell, result.protocol) == (cell, asked["protocol"]) and result.status == "ok":
            known = entry.results.get(key)
            if known is None or known.protocol_version < result.protocol_version:
                entry.results[key] = result
        else:
            entry.lacks[key] = _why_missing(asked["identity"], cell, asked["protocol"], result, records)


def _why_missing(identity: str, cell: CellKey, protocol: str, result: Result | None, records: Records) -> str:
    if result is not None:
        if (result.cell, result.protocol) != (cell, protocol):
            return "its result file is of another cell or protocol"
        return f"failed: {result.reason or 'no reason is given'}"
    for refused in records.refused:
        if refused.where.endswith(f"/{identity}.json"):
            return f"its result file cannot be used: {refused.why}"
    failures = records.failures.get(cell.identity)
    for failure in failures.failures if failures is not None else []:
        if failure.protocol in (None, protocol):
            return f"{failure.stage} failed: {failure.message}"
    return "not measured"


def _account(entry: Entry, board: Board) -> None:
    """Count what is there against what the suite asks for, and say why the model cannot be ranked, if so."""
    asked = [(task, seed, protocol) for task in board.tasks for seed in board.seeds for protocol in board.protocols]
    entry.asked = len(asked)
    entry.lacks = {key: entry.lacks.get(key, "not measured") for key in asked if key not in entry.results}
    if entry.lacks:
        entry.unranked.append("Incomplete: " + "; ".join(_grouped(entry.lacks, len(board.seeds))))
    low: dict[str, list[GateReading]] = {}
    for (task, _), gate in entry.gates().items():
        if not gate.passed:
            low.setdefault(task, []).append(gate)
    for task, gates in low.items():
        values = [gate.value for gate in gates if gate.value is not None]
        shown = number(min(values), "share") if values else "no value"
        seeds = f" in {len(gates)} of {len(board.seeds)} seeds" if len(board.seeds) > 1 else ""
        entry.unranked.append(f"Below the gate on {task}{seeds}: {shown}, needs {gates[0].at_least:g}")


def _grouped(lacks: Mapping[Key, str], seeds: int) -> list[str]:
    """Missing measurements in words, those with one reason together."""
    groups: dict[tuple[str, str], dict[str, list[int]]] = {}
    for (task, seed, protocol), why in lacks.items():
        groups.setdefault((task, why), {}).setdefault(protocol, []).append(seed)
    said: list[str] = []
    for (task, why), protocols in groups.items():
        chosen = sorted({seed for found in protocols.values() for seed in found})
        which = "" if len(chosen) == seeds else f" (seed{'s' if len(chosen) > 1 else ''} {listed([*map(str, chosen)])})"
        said.append(f"{task}: {listed(list(protocols))}{which} – {why}")
    return said


def _refuse_other_versions(entries: Iterable[Entry], board: Board) -> None:
    """Models that were measured by an older version of a protocol, or on other data, are shown and not ranked."""
    found = list(entries)
    for protocol in board.protocols:
        versions = [r.protocol_version for entry in found for key, r in entry.results.items() if key[2] == protocol]
        for entry in found:
            own = {r.protocol_version for key, r in entry.results.items() if key[2] == protocol}
            if own and own != {max(versions)}:
                entry.unranked.append(f"Measured by version {min(own)} of {protocol}; this board ranks {max(versions)}")
    usual = {
        place: Counter(digest for entry in found for digest in _data(entry).get(place, ())).most_common()
        for place in sorted({place for entry in found for place in _data(entry)})
    }
    for entry in found:
        other = sorted({task for (task, data), own in _data(entry).items() if own != {_first(usual[task, data])}})
        if other:
            entry.unranked.append(f"Measured on other data than the rest of the board: {listed(other)}")


def _data(entry: Entry) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for (task, _, _), result in entry.results.items():
        for data, digest in result.digests.items():
            found.setdefault((task, data), set()).add(digest)
    return found


def _first(counted: Sequence[tuple[str, int]]) -> str:
    """The most frequent digest; the smaller one of two that are as frequent."""
    return min(counted, key=lambda pair: (-pair[1], pair[0]))[0]


def _name_orphans(measured: Iterable[Measured], records: Records) -> None:
    asked = {entry["identity"] for found in measured for entry in found.record.measurements}
    for identity in sorted(set(records.results) - asked):
        cell = records.results[identity].cell
        where = f"results/{identity}.json"
        records.refused.append(Refused(where, f"no suite here asks for it ({cell.model} on {cell.task})"))
