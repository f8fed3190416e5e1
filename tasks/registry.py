"""Finding a family by name, by entry point or by file, and building a task with it.

A family is a function ``build(params, target) -> Task``. `params` is the spec's mapping, which the family checks
strictly (see `layerstate.tasks.parameters.Parameters`): it raises `TaskError` with the parameter's name as `field`.
`target` is the state variable that models are trained on. The task it returns needs no base class; `Task` says what it
must have. Raise the task's `version` whenever the same parameters and seed would give other bytes.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from .base import Task
from .errors import LayerstateError, TaskError
from .parameters import check_target, suggestion

__all__ = ["ENTRY_POINTS", "families", "family_file", "family_source_digest", "load_task"]

ENTRY_POINTS = "layerstate.tasks"
"""The entry point group by which an installed package offers families."""

_BUILT_IN = ("code_depth", "dyck", "flip_flop", "groups", "parity")
_MEMBERS = ("family", "version", "target", "vocabulary", "classes", "sample", "corrupt")

Build = Callable[[Mapping[str, Any], str], object]


def load_task(family: str, params: Mapping[str, Any], target: str, base: Path | None = None) -> Task:
    """Build a task.

    Parameters
    ----------
    family : str
        A built-in or installed family, or ``path/to/file.py:build``.
    params : mapping
        The family's parameters.
    target : str
        The state variable that models are trained on.
    base : Path, optional
        The folder that a path is relative to; the working directory if left out.

    Raises
    ------
    TaskError
        For a family that cannot be found or run, and for wrong parameters; its `field` is ``family``, ``target`` or
        the name of the parameter.
    """
    with _Reported(family, "build"):
        task = _build_of(family, base)(params, target)
    missing = [name for name in _MEMBERS if not hasattr(task, name)]
    if missing or not isinstance(task, Task):
        raise TaskError(
            f"family {family!r} built a {type(task).__name__} without {', '.join(missing)}; a task has "
            f"{', '.join(_MEMBERS)}",
            field="family",
        )
    check_target(family, target, task.classes)
    if task.target != target:
        raise TaskError(
            f"family {family!r} built a task with the target {task.target!r}, not {target!r}", field="family"
        )
    return task


def families() -> dict[str, str]:
    """Names of the built-in and installed families, each with the function that builds its tasks; none is imported."""
    found = {name: f"{__package__}.{name}:build" for name in _BUILT_IN}
    for name, value in _installed():
        _check_unique(name)
        found[name] = value
    return dict(sorted(found.items()))


def family_source_digest(family: str, base: Path | None = None) -> str | None:
    """SHA-256 of the file of a family given by path, for identities; None for a built-in or installed one.

    Raises
    ------
    TaskError
        If there is no such file.
    """
    found = family_file(family, base)
    return None if found is None else hashlib.sha256(_source_of(found[0])).hexdigest()


def family_file(family: str, base: Path | None = None) -> tuple[Path, str] | None:
    """The file of a family given by path, and the function in it; None for a built-in or installed one."""
    return _file_of(family, base) if _is_path(family) else None


def _build_of(family: str, base: Path | None) -> Build:
    if _is_path(family):
        file, name = _file_of(family, base)
        return _function(_run_file(family, file), name, str(file))
    known = families()
    _check_unique(family)
    if family not in known:
        raise TaskError(
            f"there is no family {family!r}{suggestion(family, list(known))}; there are {', '.join(known)}, and "
            "path/to/file.py:build",
            field="family",
        )
    module, _, name = known[family].partition(":")
    with _Reported(family, "import"):
        return _function(importlib.import_module(module), name or "build", module)


def _is_path(family: str) -> bool:
    return ".py" in family or "/" in family or ":" in family


def _file_of(family: str, base: Path | None) -> tuple[Path, str]:
    where, _, name = family.rpartition(":")
    if not where.endswith(".py") or not name.isidentifier():
        raise TaskError(f"family {family!r} must be a name or path/to/file.py:build", field="family")
    return ((base or Path.cwd()) / where).resolve(), name


def _source_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise TaskError(f"cannot read the family's file {file}: {error.strerror}", field="family") from error


def _run_file(family: str, file: Path) -> ModuleType:
    """The module in `file`, under a name of its own, so that two files of one name are two modules."""
    source = _source_of(file)
    module = ModuleType("layerstate_family_" + hashlib.sha256(str(file).encode() + b"\0" + source).hexdigest()[:16])
    module.__file__ = str(file)
    if module.__name__ in sys.modules:
        return sys.modules[module.__name__]
    with _Reported(family, "import"):
        code = compile(source, str(file), "exec", dont_inherit=True)
        # Dataclasses and pickle look their module up while it runs.
        sys.modules[module.__name__] = module
        complete = False
        try:
            exec(code, vars(module))
            complete = True
        finally:
            if not complete:
                del sys.modules[module.__name__]
    return module


def _function(module: ModuleType, name: str, place: str) -> Build:
    function = getattr(module, name, None)
    if not callable(function):
        public = [other for other, value in vars(module).items() if callable(value) and not other.startswith("_")]
        raise TaskError(f"{place} has no function {name!r}{suggestion(name, public)}", field="family")
    return function


@cache
def _installed() -> tuple[tuple[str, str], ...]:
    return tuple((point.name, point.value) for point in metadata.entry_points(group=ENTRY_POINTS))


def _check_unique(name: str) -> None:
    """Raise TaskError if two packages, or a package and layerstate itself, offer a family of this name."""
    offers = [value for other, value in _installed() if other == name]
    if name in _BUILT_IN:
        offers.append(f"{__package__}.{name}:build")
    if len(offers) > 1:
        raise TaskError(f"two families are called {name!r}: {' and '.join(offers)}; uninstall one", field="family")


@dataclass(frozen=True)
class _Reported:
    """While open, what a family's own code raises becomes one TaskError with the place and the last line."""

    family: str
    doing: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, LayerstateError) or not isinstance(error, Exception | SystemExit):
            return
        last = traceback.format_exception_only(error)[-1].strip()
        frames = traceback.extract_tb(error.__traceback__)
        place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        raise TaskError(f"family {self.family!r}: its {self.doing} failed{place}: {last}", field="family") from error
