"""Name and title of every built-in spec, fast: neither pydantic nor whole files are read for a list."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .names import Kind, builtin_files
from .read import read_head

__all__ = ["Heading", "headings"]


@dataclass(frozen=True)
class Heading:
    """The first lines of a built-in spec: enough for a list."""

    kind: Kind
    name: str
    title: str
    path: Path


def headings(kind: Kind) -> list[Heading]:
    """The headings of every built-in spec of a kind, in the order of the names.

    Files are read no further than their title; what comes after it is checked where the spec is used.
    """
    return [_heading(kind, name, path) for name, path in builtin_files(kind).items()]


def _heading(kind: Kind, name: str, path: Path) -> Heading:
    title = read_head(path, frozenset({"title"})).get("title")
    if title is None or not isinstance(title.value, str):
        from .located import locate

        # The title may be inherited.
        return Heading(kind, name, locate(path, kind).spec.title, path)
    return Heading(kind, name, title.value, path)
