"""Folders that are whole or not there at all: written beside, compared with what is there, put in place by renaming."""

from __future__ import annotations

import importlib
import os
import secrets
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from .card import MARK
from .files import StoreError, make_folder, translated

__all__ = ["NewFolder", "Outcome", "new_folder"]


class Outcome(Enum):
    """What became of a folder."""

    NEW = "new"
    SAME = "same"
    REPLACED = "replaced"


@dataclass
class NewFolder:
    """A folder in the making: `place` is where it is written, `outcome` what became of it."""

    place: Path
    outcome: Outcome = Outcome.NEW


@contextmanager
def new_folder(to: Path, force: bool) -> Generator[NewFolder]:
    """Inside, an export is written into a folder beside `to`; at the end it takes that place.

    If anything goes wrong inside, or the process is killed, `to` is as it was before. Where there is an export in `to`
    already, one of the same content stays, and one of other content is replaced if `force` says so: it is renamed
    before it is removed, so a kill between the two renames leaves both, whole, under other names.

    Raises
    ------
    StoreError
        If `to` is a file, a folder that holds anything but an export, or an export of other content, or cannot be
        written.
    """
    to = Path(os.path.abspath(to))
    _check_target(to)
    make_folder(to.parent, "--to")
    _remove_stale(to)
    made = NewFolder(to.with_name(f".{to.name[:200]}.tmp-{os.getpid()}-{secrets.token_hex(4)}"))
    try:
        made.place.mkdir()
    except OSError as error:
        raise translated(error, to.parent, "--to") from error
    try:
        yield made
        _put_in_place(made, to, force)
    except OSError as error:
        raise translated(error, to, "--to") from error
    finally:
        shutil.rmtree(made.place, ignore_errors=True)


def _check_target(to: Path) -> None:
    if not to.exists() and not to.is_symlink():
        return
    if not to.is_dir():
        raise StoreError(f"{to} is a file, and a folder is needed there. Choose another folder with --to.")
    try:
        names = sorted(path.name for path in to.iterdir())
    except OSError as error:
        raise translated(error, to, "--to") from error
    if names and not _is_export(to):
        raise StoreError(
            f"{to} holds {names[0]!r} and is no export (its README.md would say so); nothing is replaced there. Choose "
            "another folder with --to."
        )


def _is_export(folder: Path) -> bool:
    try:
        return MARK in (folder / "README.md").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def _put_in_place(made: NewFolder, to: Path, force: bool) -> None:
    if not to.exists() or not any(to.iterdir()):
        os.replace(made.place, to)  # an empty folder gives way
        return
    difference = _difference(made.place, to)
    if difference is None:
        made.outcome = Outcome.SAME
        return
    if not force:
        raise StoreError(
            f"{to} holds an export of other content ({difference}). Nothing was changed: --force replaces it, and --to "
            "names another folder."
        )
    aside = to.with_name(f".{to.name[:200]}.old-{os.getpid()}-{secrets.token_hex(4)}")
    os.rename(to, aside)
    try:
        os.rename(made.place, to)
    except OSError:
        os.rename(aside, to)
        raise
    shutil.rmtree(aside, ignore_errors=True)
    made.outcome = Outcome.REPLACED


def _difference(new: Path, old: Path) -> str | None:
    """The first difference between two folders, in words; None where all files have the same content."""
    names = [{path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()} for root in (new, old)]
    for name in sorted(names[0] ^ names[1]):
        return f"{name} is only in the {'new one' if name in names[0] else 'one that is there'}"
    differing = [name for name in sorted(names[0]) if not _same(new / name, old / name)]
    # The data say more than the card, which differs with them.
    differing.sort(key=lambda name: not name.endswith(".parquet"))
    return f"{differing[0]} differs" if differing else None


def _same(one: Path, other: Path) -> bool:
    if one.read_bytes() == other.read_bytes():
        return True
    if one.suffix != ".parquet":
        return False
    parquet: Any = importlib.import_module("pyarrow.parquet")
    try:  # another version of pyarrow may have written the same rows in other bytes
        return parquet.read_table(one).equals(parquet.read_table(other), check_metadata=True)
    except (OSError, ValueError):
        return False


def _remove_stale(to: Path, age: float = 3600.0) -> None:
    """Remove what exports that were killed left beside `to`, once it is older than `age` seconds."""
    for path in to.parent.iterdir():
        if path.name.startswith((f".{to.name[:200]}.tmp-", f".{to.name[:200]}.old-")):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime >= age and to.exists():
                    shutil.rmtree(path, ignore_errors=True)
