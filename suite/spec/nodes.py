"""YAML as a tree that remembers where every value was written, and the deep merge of such trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...tasks.errors import SpecError
from .suggest import printable

__all__ = ["Key", "Mark", "Node", "PlacedError", "Scalar", "field_path", "merge", "plain", "shown"]

Key = str | int
"""A step into a tree: a mapping's key or a list's index."""

Scalar = str | int | float | bool | None


def field_path(keys: Sequence[Key]) -> str:
    """The path as people write it: ``lengths.evaluate[2]``."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return printable(text)


class PlacedError(SpecError):
    """A SpecError each of whose lines starts with its place, ``file:line:column``."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a YAML file; line and column count from 1."""

    file: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{shown(self.file)}:{self.line}:{self.column}"


def shown(path: Path) -> str:
    """The path for messages: relative inside the current folder, always printable."""
    with suppress(ValueError, OSError):
        path = path.relative_to(Path.cwd())
    return printable(str(path))


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its place.

    Attributes
    ----------
    value : scalar, list of Node, or dict of str to Node
        What was written.
    mark : Mark
        Where the value starts.
    key : Mark
        Where its key starts (its own start, in a list and at the top).
    path : tuple of keys
        Its path in the file where it was written, which an ``override`` makes longer than its path in the spec.
    """

    value: Scalar | list[Node] | dict[str, Node]
    mark: Mark
    key: Mark
    path: tuple[Key, ...] = ()

    def child(self, key: Key) -> Node | None:
        """The value under `key`, or None."""
        if isinstance(self.value, dict) and isinstance(key, str):
            return self.value.get(key)
        if isinstance(self.value, list) and isinstance(key, int) and 0 <= key < len(self.value):
            return self.value[key]
        return None

    def nearest(self, keys: Sequence[Key]) -> Node:
        """The value at `keys`, or the deepest one on the way that exists."""
        node = self
        for key in keys:
            below = node.child(key)
            if below is None:
                return node
            node = below
        return node

    def items(self) -> Iterator[tuple[str, Node]]:
        """The entries of a mapping; none for other values."""
        if isinstance(self.value, dict):
            yield from self.value.items()

    def without(self, *keys: str) -> Node:
        """The same mapping less `keys`."""
        return replace(self, value={key: value for key, value in self.items() if key not in keys})


def plain(node: Node) -> Any:
    """The bare Python value of a tree."""
    if isinstance(node.value, dict):
        return {key: plain(value) for key, value in node.value.items()}
    if isinstance(node.value, list):
        return [plain(value) for value in node.value]
    return node.value


def merge(below: Node, above: Node) -> Node:
    """`above` laid over `below`: mappings merge key by key, everything else is replaced."""
    if not isinstance(below.value, dict) or not isinstance(above.value, dict):
        return above
    merged = dict(below.value)
    for key, value in above.value.items():
        merged[key] = merge(merged[key], value) if key in merged else value
    return replace(above, value=merged)
