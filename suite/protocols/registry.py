"""From a protocol spec's `measures` to its code: built in, installed, or a file beside the YAML. Imports no torch."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ...adapters.base import AdapterError
from ...adapters.source import UserCode
from ...tasks.errors import SpecError
from .base import Params, ProtocolCode

__all__ = ["BUILT_IN", "ENTRY_POINT_GROUP", "load_protocol"]

BUILT_IN = (
    "behaviour",
    "causal",
    "component_attribution",
    "grouping",
    "necessity",
    "ood_ablation",
    "patching",
    "probe_profile",
    "subspace",
)
"""Each the module of its name in this folder."""

ENTRY_POINT_GROUP = "layerstate.protocols"


def load_protocol(measures: str, base: Path | None = None) -> ProtocolCode:
    """The measuring code that a protocol spec names.

    Parameters
    ----------
    measures : str
        A built-in name, the name of an entry point in the group ``layerstate.protocols``, or the path of a Python file.
        In each case a module with ``VERSION`` (int), ``MECHANISTIC`` (bool), ``Params`` (a subclass of
        `protocols.base.Params`) and ``measure(cell, params)``; and ``relations(task, params)`` if it needs other cells.
    base : Path, optional
        What a path is relative to: the folder of the YAML. The working directory by default.

    Raises
    ------
    SpecError
        If there is no such protocol, its module can't be imported, or it lacks one of the four.
    """
    if measures.endswith(".py"):
        return _from_file((base or Path.cwd()) / measures)
    if measures in BUILT_IN:
        return _code(importlib.import_module(f".{measures}", __package__), f"the protocol {measures}", None)
    installed = list(entry_points(group=ENTRY_POINT_GROUP))
    found = [point for point in installed if point.name == measures]
    if len(found) > 1:
        sources = ", ".join(point.value for point in found)
        raise SpecError(f"two installed packages give a protocol {measures!r} ({sources}); uninstall one")
    if not found:
        names = [*BUILT_IN, *(point.name for point in installed)]
        raise SpecError(f"there is no protocol {measures!r}{_instead(measures, names)}, or write path/to/file.py")
    return _from_entry_point(found[0])


def _from_entry_point(point: EntryPoint) -> ProtocolCode:
    source = f"the protocol {point.name!r} ({point.value})"
    with _as_spec_error(), UserCode(source, "importing it"):
        module: object = point.load()
    if not isinstance(module, ModuleType):
        raise SpecError(f"{source}: the entry point must name a module, not a {type(module).__name__}")
    file = Path(module.__file__) if module.__file__ else None
    return _code(module, source, _digest(file) if file and file.is_file() else None)


def _from_file(path: Path) -> ProtocolCode:
    file = path.resolve()
    if not file.is_file():
        nearby = sorted(other.name for other in file.parent.glob("*.py")) if file.parent.is_dir() else []
        raise SpecError(f"there is no protocol file {file}{_instead(file.name, nearby)}")
    digest = _digest(file)
    name = f"layerstate_protocol_{hashlib.sha256(f'{file}{digest}'.encode()).hexdigest()[:16]}"
    if name not in sys.modules:
        _run_file(file, name)
    return _code(sys.modules[name], f"the protocol {file}", digest)


def _run_file(file: Path, name: str) -> None:
    """Run `file` as the module `name`, in sys.modules while it runs and after, where dataclasses look for it.

    Its bytes are compiled anew: cached byte code is told apart by the second in which the file was written.
    """
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    complete = False
    try:
        with _as_spec_error(), UserCode(str(file), "importing the protocol", file):
            exec(compile(file.read_bytes(), str(file), "exec", dont_inherit=True), vars(module))
        complete = True
    finally:
        if not complete:
            del sys.modules[name]


@contextmanager
def _as_spec_error() -> Generator[None]:
    try:
        yield
    except AdapterError as error:
        raise SpecError(str(error)) from error


def _code(module: ModuleType, source: str, digest: str | None) -> ProtocolCode:
    version = _attribute(module, source, "VERSION", "a whole number")
    if not isinstance(version, int) or isinstance(version, bool):
        raise SpecError(f"{source}: VERSION must be a whole number, not {version!r}")
    mechanistic = _attribute(module, source, "MECHANISTIC", "True or False")
    if not isinstance(mechanistic, bool):
        raise SpecError(f"{source}: MECHANISTIC must be True or False, not {mechanistic!r}")
    params = _attribute(module, source, "Params", "a subclass of layerstate.suite.protocols.Params")
    if not isinstance(params, type) or not issubclass(params, Params):
        raise SpecError(f"{source}: Params must be a subclass of layerstate.suite.protocols.Params")
    measure = _attribute(module, source, "measure", "a function measure(cell, params)")
    if not callable(measure):
        raise SpecError(f"{source}: measure must be a function measure(cell, params)")
    relations = getattr(module, "relations", None)
    if relations is not None and not callable(relations):
        raise SpecError(f"{source}: relations must be a function relations(task, params), or left out")
    return ProtocolCode(version, mechanistic, params, cast(Any, measure), digest, cast(Any, relations))


def _attribute(module: ModuleType, source: str, name: str, what: str) -> object:
    if not hasattr(module, name):
        raise SpecError(f"{source} has no {name}; it must be {what}")
    return getattr(module, name)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _instead(name: str, known: Iterable[str]) -> str:
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(names)}" if names else ""
