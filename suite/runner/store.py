"""The run folder: what a suite leaves on disk, read and written so that no crash can leave half a file behind.

::

    cells/<identity>/weights.safetensors   the trained weights
    cells/<identity>/cell.json             CellRecord, written after the weights
    cells/<identity>/state.safetensors     a training that is not finished (weights, optimiser, position)
    cells/<identity>/failure.json          why a cell or a measurement failed last time
    cells/<identity>/lock                  held (flock) by the process that works on the cell
    results/<identity>.json                Result, one a measurement
    suites/<name>-<identity>.json          SuiteRecord

File names come from identities only. Reading needs no torch.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

from ..spec.results import SCHEMA_VERSION, CellKey, CellRecord, Record, Result, SuiteRecord
from ..spec.soundness import check_numbers, check_record, first_fault
from .files import StoreError, make_folder, parse, remove, remove_stale, render, set_aside, translated, write_atomic

__all__ = [
    "CellFailures",
    "Failure",
    "Store",
    "StoreError",
    "read_cells",
    "read_failures",
    "read_results",
    "read_suites",
    "results_of",
    "sound",
]

Tell = Callable[[str], None]
R = TypeVar("R", bound=Record)
_IDENTITY = re.compile(r"[0-9a-f]{8,64}")


class Failure(Record):
    """One thing that went wrong in a cell."""

    stage: Literal["process", "conformance", "training", "measuring"]
    """What was being done."""
    protocol: str | None = None
    """The protocol that was measuring."""
    message: str
    """What went wrong, in words."""
    time: str
    """UTC, ISO 8601."""


class CellFailures(Record):
    """What went wrong in a cell the last time it ran: `cells/<identity>/failure.json`; gone once it succeeds."""

    schema_version: Literal[1] = SCHEMA_VERSION
    cell: CellKey
    failures: list[Failure]


def _silent(_message: str) -> None:
    """Drop a message."""


class Store:
    """Reads and writes a run folder.

    Parameters
    ----------
    out : Path
        The folder; made by `prepare`.
    tell : callable, optional
        Gets one sentence for each damaged file.
    read_only : bool
        Whether damaged files stay where they are instead of being set aside.
    """

    def __init__(self, out: Path, tell: Tell = _silent, *, read_only: bool = False) -> None:
        self.out = out
        self.tell = tell
        self.read_only = read_only

    def prepare(self) -> None:
        """Make the folders and prove that they can be written, before anything is computed; StoreError if not."""
        for folder in (self.out, self.out / "cells", self.out / "results", self.out / "suites"):
            make_folder(folder)
            probe = folder / f".writable-{os.getpid()}"
            write_atomic(probe, b"")
            remove(probe)
            remove_stale(folder)

    # Paths

    def cell_folder(self, identity: str) -> Path:
        """Where a cell's files are."""
        return self.out / "cells" / _checked(identity)

    def weights_path(self, identity: str) -> Path:
        """The trained weights of a cell."""
        return self.cell_folder(identity) / "weights.safetensors"

    def state_path(self, identity: str) -> Path:
        """The state of a training that is not finished."""
        return self.cell_folder(identity) / "state.safetensors"

    def result_path(self, identity: str) -> Path:
        """The result file of a measurement."""
        return self.out / "results" / f"{_checked(identity)}.json"

    # Results

    def read_result(self, identity: str) -> Result | None:
        """The measurement, or None if there is none to use; a damaged file is set aside."""
        path = self.result_path(identity)
        return self._read(path, Result, lambda result: _expect(result.identity, identity))

    def write_result(self, result: Result) -> None:
        """Write a measurement."""
        write_atomic(self.result_path(result.identity), render(result))

    # Cells

    def read_cell(self, identity: str) -> CellRecord | None:
        """The record of a trained cell, or None; a damaged file is set aside."""
        path = self.cell_folder(identity) / "cell.json"
        return self._read(path, CellRecord, lambda record: _expect(record.cell.identity, identity))

    def weights(self, record: CellRecord) -> Path | None:
        """The weights that belong to a record, checked against its sha256; damaged ones are set aside and give None."""
        path = self.weights_path(record.cell.identity)
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise translated(error, path) from error
        if found == record.weights_sha256:
            return path
        if not self.read_only:
            set_aside(path, "its sha256 is not the one in cell.json", self.tell)
        return None

    def write_cell(self, record: CellRecord) -> None:
        """Write a cell's record; its weights must be there already. The state of its training is dropped."""
        write_atomic(self.cell_folder(record.cell.identity) / "cell.json", render(record))
        remove(self.state_path(record.cell.identity))

    # Failures

    def read_failures(self, identity: str) -> CellFailures | None:
        """What went wrong in the cell last time, if anything."""
        return self._read(
            self.cell_folder(identity) / "failure.json",
            CellFailures,
            lambda found: _expect(found.cell.identity, identity),
        )

    def write_failures(self, failures: CellFailures) -> None:
        """Record what went wrong; with no failures, the file goes."""
        path = self.cell_folder(failures.cell.identity) / "failure.json"
        if not failures.failures:
            remove(path)
            return
        make_folder(path.parent)
        write_atomic(path, render(failures))

    # Suites

    def write_suite(self, record: SuiteRecord) -> None:
        """Write a suite's record; models that an earlier run measured under the same suite stay in it."""
        path = self.out / "suites" / f"{record.suite['name']}-{_checked(record.identity)}.json"
        with _locked(self.out / "suites" / ".lock", wait=True):
            earlier = self._read(path, SuiteRecord, lambda found: _expect(found.identity, record.identity))
            write_atomic(path, render(record if earlier is None else _united(earlier, record)))

    # Locks

    @contextmanager
    def lock(self, identity: str, *, wait: bool = False) -> Generator[bool]:
        """Hold a cell; yields False, without waiting, if another process holds it."""
        make_folder(self.cell_folder(identity))
        with _locked(self.cell_folder(identity) / "lock", wait=wait) as held:
            if held:
                remove_stale(self.cell_folder(identity), age=0.0)
            yield held

    def _read(self, path: Path, kind: type[R], check: Callable[[R], None]) -> R | None:
        try:
            return _parsed(path, kind, check)
        except FileNotFoundError:
            return None
        except ValueError as error:
            if self.read_only:
                self.tell(f"{path} is damaged and does not count: {first_fault(error)}.")
            else:
                set_aside(path, first_fault(error), self.tell)
            return None


def read_suites(out: Path, tell: Tell = _silent) -> list[SuiteRecord]:
    """The suites that were run into `out`, by name; a damaged file is skipped and told, and nothing is written."""
    return _read_all(
        sorted((out / "suites").glob("*.json")),
        SuiteRecord,
        lambda record, path: _expect(f"{record.suite.get('name')}-{record.identity}", path.stem),
        tell,
    )


def read_results(out: Path, tell: Tell = _silent) -> list[Result]:
    """All measurements in `out`; a damaged file is skipped and told, and nothing is written."""
    found = sorted((out / "results").glob("*.json"))
    return _read_all(found, Result, lambda record, path: _expect(record.identity, path.stem), tell)


def results_of(
    out: Path, record: SuiteRecord, results: Mapping[str, Result], tell: Tell = _silent
) -> dict[str, Result]:
    """The measurements that a suite asks for, by identity; one of another cell or protocol is told and left out."""
    cells = {cell.identity: cell for cell in record.cells}
    found: dict[str, Result] = {}
    for asked in record.measurements:
        result = results.get(asked["identity"])
        if result is None:
            continue
        wanted = (cells[asked["cell"]], asked["protocol"])
        if (result.cell, result.protocol) == wanted:
            found[result.identity] = result
        else:
            cell = wanted[0]
            right = f"{wanted[1]} of {cell.model} · {cell.task}, seed {cell.seed}"
            path = out / "results" / f"{result.identity}.json"
            tell(f"{path} is left out: cell: not the measurement that the suite asks for — {right} would be right.")
    return found


def read_cells(out: Path, tell: Tell = _silent) -> list[CellRecord]:
    """All trained cells in `out`; a damaged file is skipped and told, and nothing is written."""
    found = sorted((out / "cells").glob("*/cell.json"))
    return _read_all(found, CellRecord, lambda record, path: _expect(record.cell.identity, path.parent.name), tell)


def read_failures(out: Path, tell: Tell = _silent) -> list[CellFailures]:
    """What went wrong in each cell of `out` the last time it ran; nothing is written."""
    found = sorted((out / "cells").glob("*/failure.json"))
    return _read_all(found, CellFailures, lambda record, path: _expect(record.cell.identity, path.parent.name), tell)


def now() -> str:
    """The time, UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read_all(paths: list[Path], kind: type[R], check: Callable[[R, Path], None], tell: Tell) -> list[R]:
    found: list[R] = []
    for path in paths:
        if not path.is_file():
            continue
        try:
            found.append(_parsed(path, kind, lambda record, path=path: check(record, path)))
        except ValueError as error:
            tell(f"{path} is left out: {first_fault(error)}.")
    return found


def _parsed(path: Path, kind: type[R], check: Callable[[R], None]) -> R:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise translated(error, path) from error
    return sound(kind, data, check)


def sound(kind: type[R], data: bytes, check: Callable[[R], None]) -> R:
    """The record that a file holds, fit for use; ValueError says what is wrong and what would be right.

    `check` is asked first: it says whether the record may stand where it stands.
    """
    content = parse(data)
    check_numbers(content)
    record = kind.model_validate(content)
    check(record)
    check_record(record)
    return record


def _expect(found: str, identity: str) -> None:
    if found != identity:
        raise ValueError(f"it holds {found} — {identity}, as the file's name says, would be right")


def _checked(identity: str) -> str:
    if not _IDENTITY.fullmatch(identity):
        raise ValueError(f"{identity!r} is not an identity: 8 to 64 hexadecimal digits")
    return identity


def _united(earlier: SuiteRecord, new: SuiteRecord) -> SuiteRecord:
    """`new` with the models of `earlier` that it does not have, and their cells and measurements.

    A record holds everything that its suite asks of each of its models, so of a model in both only the new is kept: no
    name has two meanings, and what an edited model or module once gave never counts as a further seed.
    """
    others = [cell for cell in earlier.cells if cell.model not in new.models]
    theirs = {cell.identity for cell in others}
    models = earlier.models | new.models
    return new.model_copy(
        update={
            "suite": {**new.suite, "models": list(models)},
            "models": models,
            "cells": [*others, *new.cells],
            "measurements": [*(each for each in earlier.measurements if each["cell"] in theirs), *new.measurements],
        }
    )


@contextmanager
def _locked(path: Path, *, wait: bool) -> Generator[bool]:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise translated(error, path) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()} {now()}\n".encode())
        yield True
    finally:
        os.close(handle)
