"""Run folders as a stranger may have left them: what can be used becomes records, what cannot is named with its reason.

Nothing is followed out of the folder: links are refused, names and identities are checked before they become addresses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ..suite.runner.store import CellFailures, sound
from ..suite.spec.results import CellKey, CellRecord, Record, Result, SuiteRecord
from ..suite.spec.soundness import first_fault
from ..tasks.errors import LayerstateError

__all__ = ["Records", "Refused", "SiteError", "is_name", "read_records"]

R = TypeVar("R", bound=Record)
MAX_BYTES = 64 * 2**20
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_IDENTITY = re.compile(r"[0-9a-f]{8,64}")


class SiteError(LayerstateError):
    """The site cannot be built from these folders, or not into that one."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that the site does not use.

    Attributes
    ----------
    where : str
        The file, from the source folder's name on.
    why : str
        What is wrong with it.
    """

    where: str
    why: str


@dataclass(slots=True)
class Records:
    """Everything that was read, each thing once.

    Attributes
    ----------
    suites : list of (int, SuiteRecord)
        With the number of the folder they stand in, in the order of the sources.
    results, cells, failures : dict
        By identity of the measurement, or of the cell.
    refused : list of Refused
        Files that are not used.
    """

    suites: list[tuple[int, SuiteRecord]] = field(default_factory=list[tuple[int, SuiteRecord]])
    results: dict[str, Result] = field(default_factory=dict[str, Result])
    cells: dict[str, CellRecord] = field(default_factory=dict[str, CellRecord])
    failures: dict[str, CellFailures] = field(default_factory=dict[str, CellFailures])
    refused: list[Refused] = field(default_factory=list[Refused])


def is_name(text: str) -> bool:
    """Whether `text` may become a part of an address: the names that specs may have."""
    return _NAME.fullmatch(text) is not None


def read_records(sources: Sequence[Path]) -> Records:
    """Read run folders, or folders of run folders.

    Parameters
    ----------
    sources : sequence of Path
        Where one measurement stands in several of them, the first one counts.

    Returns
    -------
    Records

    Raises
    ------
    SiteError
        If a source is not a folder, or none holds a suite.
    """
    records = Records()
    for number, folder in enumerate(folder for source in sources for folder in _run_folders(source)):
        _read_folder(folder, number, records)
    if not records.suites:
        shown = ", ".join(str(source) for source in sources) or "no folder"
        why = "".join(f" {refused.where}: {refused.why}." for refused in records.refused[:3])
        raise SiteError(
            f"There is no suite to show in {shown}: a folder that `layerstate run SUITE --out FOLDER` wrote holds "
            f"suites/ and results/.{why}"
        )
    return records


def _run_folders(source: Path) -> list[Path]:
    if not source.is_dir():
        raise SiteError(f"{source} is not a folder; give one that `layerstate run SUITE --out FOLDER` wrote.")
    if (source / "suites").is_dir():
        return [source]
    return [child for child in sorted(source.iterdir()) if not child.is_symlink() and (child / "suites").is_dir()]


def _read_folder(folder: Path, number: int, records: Records) -> None:
    label = folder.resolve().name
    reader = _Reader(folder, label, records.refused)
    for path, suite in reader.all("suites", "*.json", SuiteRecord, _check_suite):
        if path.name != f"{suite.suite['name']}-{suite.identity}.json":
            reader.refuse(path, f"it holds the suite {suite.suite['name']}-{suite.identity}")
        else:
            records.suites.append((number, suite))
    for path, result in reader.all("results", "*.json", Result, _check_result):
        known = records.results.setdefault(result.identity, result)
        if known is not result and _numbers(known) != _numbers(result):
            reader.refuse(path, "an earlier source holds other numbers for the same measurement; those are shown")
    for _, cell in reader.all("cells", "*/cell.json", CellRecord, _check_cell):
        records.cells.setdefault(cell.cell.identity, cell)
    for _, failures in reader.all("cells", "*/failure.json", CellFailures, _check_cell):
        records.failures.setdefault(failures.cell.identity, failures)


@dataclass(slots=True)
class _Reader:
    folder: Path
    label: str
    refused: list[Refused]

    def refuse(self, path: Path, why: str) -> None:
        self.refused.append(Refused(f"{self.label}/{path.relative_to(self.folder).as_posix()}", why))

    def all(self, room: str, pattern: str, kind: type[R], check: Callable[[R, Path], None]) -> Iterator[tuple[Path, R]]:
        """Every readable record of a room, in the order of file names."""
        if (self.folder / room).is_symlink():
            self.refuse(self.folder / room, "a link is not followed")
            return
        for path in sorted((self.folder / room).glob(pattern)):
            if path.is_symlink() or path.parent.is_symlink():
                self.refuse(path, "a link is not followed")
            elif path.is_file() and (record := self._one(path, kind, check)) is not None:
                yield path, record

    def _one(self, path: Path, kind: type[R], check: Callable[[R, Path], None]) -> R | None:
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ValueError(f"it is larger than {MAX_BYTES // 2**20} MiB")
            record = sound(kind, path.read_bytes(), lambda record: check(record, path))
        except RecursionError:
            self.refuse(path, "it is nested too deeply")
        except OSError as error:
            self.refuse(path, error.strerror or "it cannot be read")
        except ValueError as error:
            self.refuse(path, first_fault(error))
        else:
            return record
        return None


def _check_suite(record: SuiteRecord, _path: Path) -> None:
    name = record.suite.get("name")
    _require(isinstance(name, str) and is_name(name), f"{name!r:.80} is not a name that a suite may have")
    _require_identity(record.identity)
    for cell in record.cells:
        _check_key(cell)


def _check_result(result: Result, path: Path) -> None:
    _require_identity(result.identity)
    _require(result.identity == path.stem, f"it holds the measurement {result.identity:.80}")
    _check_key(result.cell)
    _require(is_name(result.protocol), f"{result.protocol!r:.80} is not a name that a protocol may have")
    for metric in result.metrics:
        _require(is_name(metric.metric), f"{metric.metric!r:.80} is not a name that a metric may have")
        for coordinate in metric.at:
            _require(is_name(coordinate), f"{coordinate!r:.80} is not a name that a coordinate may have")


def _check_cell(record: CellRecord | CellFailures, path: Path) -> None:
    _check_key(record.cell)
    _require(record.cell.identity == path.parent.name, f"it holds the cell {record.cell.identity:.80}")


def _check_key(key: CellKey) -> None:
    _require_identity(key.identity)
    _require(is_name(key.model), f"{key.model!r:.80} is not a name that a model may have")
    _require(is_name(key.task), f"{key.task!r:.80} is not a name that a task may have")


def _require_identity(found: str) -> None:
    _require(_IDENTITY.fullmatch(found) is not None, f"{found!r:.80} is not an identity: 8 to 64 hexadecimal digits")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _numbers(result: Result) -> dict[str, Any]:
    return result.model_dump(
        exclude={"provenance", "seconds", "forward_seconds", "shared_seconds", "peak_memory_mb", "specs"}
    )
