"""Files that are whole or not there at all, strict JSON, and system errors in words.

An atomic write costs two fsyncs (a few milliseconds). It protects against a crash of the process and of the machine on
a local file system; on a network file system it is as good as that system's rename.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from ...tasks.errors import LayerstateError

__all__ = [
    "StoreError",
    "make_folder",
    "parse",
    "remove",
    "remove_stale",
    "render",
    "set_aside",
    "translated",
    "write_atomic",
]

_TEMPORARY = ".tmp-"

_REASONS = {
    errno.ENOSPC: "The disk that holds {path} is full. Free some space and run the same command again.",
    errno.EDQUOT: "The disk quota that holds {path} is used up. Free some space and run the same command again.",
    errno.EACCES: "{path} may not be read or written by this user. Change its permissions, or choose another {option}.",
    errno.EPERM: "{path} may not be changed by this user. Change its permissions, or choose another {option}.",
    errno.EROFS: "{path} is on a read-only file system. Choose another folder with {option}.",
    errno.ENOTDIR: "{path} cannot be used: a part of this path is a file, not a folder. Choose another {option}.",
    errno.EEXIST: "{path} is a file, and a folder is needed there. Choose another folder with {option}.",
    errno.EISDIR: "{path} is a folder, and a file is needed there. Move it away.",
    errno.ENAMETOOLONG: "The path {path} is too long for this file system. Choose a shorter one with {option}.",
    errno.EMFILE: "Too many files are open to open {path}. Raise the limit (ulimit -n) or use fewer workers.",
}


class StoreError(LayerstateError):
    """The run folder cannot be read or written; nothing that is finished is lost."""

    exit_code = 2


def translated(error: OSError, path: Path, option: str = "--out") -> StoreError:
    """A system error about `path`, in words that say what to do; `option` chooses another path."""
    known = _REASONS.get(error.errno or 0)
    if known is None:
        return StoreError(f"{path} cannot be read or written: {error.strerror or error}.")
    return StoreError(known.format(path=path, option=option))


def make_folder(path: Path, option: str = "--out") -> None:
    """Make a folder and those above it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise translated(error, path, option) from error


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path`: a reader, or a crash at any moment, sees the old file or the new one, never a part."""
    temporary = path.parent / f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}"
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(temporary, path)
        _fsync_folder(path.parent)
    except OSError as error:
        raise translated(error, path) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def remove(path: Path) -> None:
    """Remove a file if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise translated(error, path) from error


def remove_stale(folder: Path, age: float = 3600.0) -> None:
    """Remove temporary files in `folder` older than `age` seconds: what a killed process left."""
    for path in folder.glob(f"{_TEMPORARY}*"):
        try:
            if time.time() - path.stat().st_mtime >= age:
                path.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise translated(error, path) from error


def set_aside(path: Path, why: str, tell: Callable[[str], None]) -> None:
    """Rename a damaged file to `<name>.corrupt-<n>`, so that it is made again and can still be looked at."""
    n = 1
    while (aside := path.with_name(f"{path.name}.corrupt-{n}")).exists():
        n += 1
    try:
        path.rename(aside)
    except FileNotFoundError:
        return  # another process was first
    except OSError as error:
        raise translated(error, path) from error
    tell(f"{path} is damaged ({why}); it is kept as {aside.name} and made again.")


def parse(data: bytes) -> Any:
    """Strict JSON: ValueError for NaN, infinity, a key that stands twice, endless depth, or what is not UTF-8."""
    if not data:
        raise ValueError("the file is empty")
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def render(record: BaseModel) -> bytes:
    """A record as strict JSON, one line for each top-level key and each entry of its lists, so that files compare."""
    lines: list[str] = []
    for key, value in record.model_dump(mode="json").items():
        lines.append(f"{json.dumps(key)}: {_value(value)}")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8")


def _value(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(_compact(entry) for entry in cast("list[Any]", value)) + "\n]"
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice")
        found[key] = value
    return found


def _fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
