"""Specs by name or path: one YAML file, all built-in ones, a suite with everything it refers to. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .deep import validate_deep
from .dump import dump_resolved
from .located import Located, find_spec, load_spec, locate
from .names import KINDS, Kind, builtin_files, builtin_names, is_path
from .nodes import Mark, Node
from .read import read_head
from .resolve import ResolvedSuite, resolve_suite

__all__ = [
    "KINDS",
    "Heading",
    "Kind",
    "Located",
    "Mark",
    "Node",
    "ResolvedSuite",
    "builtin_names",
    "dump_resolved",
    "find_spec",
    "headings",
    "is_path",
    "list_specs",
    "load_spec",
    "resolve_suite",
    "validate_deep",
]


@dataclass(frozen=True)
class Heading:
    """The first lines of a built-in spec: enough for a list."""

    kind: Kind
    name: str
    title: str
    path: Path


def list_specs(kind: Kind) -> list[Located]:
    """Every built-in spec of a kind, in the order of the names, validated in full (about 15 ms each)."""
    return [locate(path, kind) for path in builtin_files(kind).values()]


def headings(kind: Kind) -> list[Heading]:
    """Name and title of every built-in spec of a kind; files are read no further than that, so this is fast."""
    return [_heading(kind, name, path) for name, path in builtin_files(kind).items()]


def _heading(kind: Kind, name: str, path: Path) -> Heading:
    found = read_head(path, frozenset({"name", "title"}))
    title = found.get("title")
    if title is None or not isinstance(title.value, str):
        # The title may be inherited.
        return Heading(kind, name, locate(path, kind).spec.title, path)
    return Heading(kind, name, title.value, path)
