"""Strict YAML 1.2: bytes in, a tree with the place of every value out.

ruamel.yaml splits the text into events; what they mean is decided here, so that nothing is converted, merged, expanded
or overwritten on the way. Not accepted: tags, anchors and aliases, merge keys, directives, several documents in a file,
duplicate keys, keys that are not texts, files over 1 MiB, and depth or size that no spec needs.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from ...tasks.errors import SpecError
from .nodes import Key, Mark, Node, PlacedError, Scalar, field_path, shown
from .scalars import plain_scalar, unwanted_character
from .suggest import closest, quoted

__all__ = ["read_head", "read_node", "read_text"]

MAX_BYTES = 2**20
MAX_DEPTH = 32
MAX_VALUES = 10_000
MAX_LINES = 20_000
MAX_LINE = 25_000

# ruamel.yaml's scanner lets these out on some malformed input, instead of its own errors.
_MALFORMED = (ValueError, OverflowError, IndexError, KeyError, AttributeError, TypeError, AssertionError)


def read_node(path: Path) -> Node:
    """The tree of a YAML file whose top level is a mapping.

    Raises
    ------
    SpecError
        Listing everything that is wrong, one line each, as ``file:line:column: …``.
    """
    return read_text(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    """The file's bytes, if it is a regular file of at most 1 MiB."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise SpecError(f"{shown(path)}: this is a folder — give the path of one YAML file")
        if not stat.S_ISREG(status.st_mode):
            raise SpecError(f"{shown(path)}: this is not a regular file — give the path of one YAML file")
        if status.st_size > MAX_BYTES:
            raise SpecError(f"{shown(path)}: {status.st_size} bytes — a spec has at most {MAX_BYTES} (1 MiB)")
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SpecError(f"there is no file {quoted(shown(path), 200)}{_nearby(path)}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError(f"{shown(path)}: cannot be read ({reason}) — give the path of a YAML file") from None


def _nearby(path: Path) -> str:
    """A suggestion from the folder where the file was expected."""
    if not path.parent.is_dir():
        return f" — there is no folder {quoted(shown(path.parent), 200)} either"
    files = [file.name for file in path.parent.glob("*.y*ml")]
    best = closest(path.name, files)
    return (
        f" — did you mean {quoted(shown(path.parent / best), 200)}?"
        if best is not None
        else " — give the path of a YAML file"
    )


def read_text(data: bytes, path: Path) -> Node:
    """The tree of YAML text, `path` being the file that errors name."""
    text = _decode(data, path)
    builder = _Builder(path)
    _guarded(text, path, builder)
    if builder.errors:
        raise PlacedError("\n".join(line for _, line in sorted(builder.errors)))
    root = builder.root
    if root is None or root.value is None:
        raise PlacedError(f"{shown(path)}:1:1: the file is empty — a spec is a mapping that starts with its kind")
    if not isinstance(root.value, dict):
        raise PlacedError(
            f"{root.mark}: the top level is {describe(root.value)} — a spec is a mapping of keys to values"
        )
    return root


def read_head(path: Path, keys: frozenset[str]) -> dict[str, Node]:
    """The scalars under some top-level keys, read no further than the last of them.

    What comes after them in the file is not looked at: for listings, which must be fast.
    """
    builder = _Builder(path, wanted=keys)
    _guarded(_decode(read_bytes(path), path), path, builder)
    return builder.found


def describe(value: Any) -> str:
    """What a value is, in a few plain words: ``the text `abc```, ``the number 3``, ``a list of 2``."""
    if value is None:
        return "null (nothing)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value!r}"
    if isinstance(value, str):
        return f"the text {quoted(value)}" if value else "an empty text"
    if isinstance(value, list):
        return f"a list of {len(cast(list[Any], value))}" if value else "an empty list"
    return "a mapping" if value else "an empty mapping"


_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")
_LINE_BREAK = re.compile("\r\n|\r|\n")


def _decode(data: bytes, path: Path) -> str:
    if len(data) > MAX_BYTES:
        raise SpecError(f"{shown(path)}: over {MAX_BYTES} bytes — a spec has at most 1 MiB")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise PlacedError(f"{shown(path)}:1:1: this is UTF-16 — save the file as UTF-8")
    if data.startswith(b"\xef\xbb\xbf"):
        raise PlacedError(f"{shown(path)}:1:1: the file starts with a byte order mark — save it as UTF-8 without one")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        place = _place_after(data[: error.start].decode("utf-8"), path)
        raise PlacedError(
            f"{place}: the byte 0x{data[error.start]:02x} is not UTF-8 — save the file as UTF-8"
        ) from None
    unwanted = _NOT_TEXT.search(text)
    if unwanted is not None:
        place = _place_after(text[: unwanted.start()], path)
        raise PlacedError(f"{place}: the control character U+{ord(unwanted[0]):04X} — a spec is plain text; remove it")
    lines = _LINE_BREAK.split(text)
    if len(lines) > MAX_LINES:
        raise PlacedError(f"{Mark(path, MAX_LINES, 1)}: more than {MAX_LINES} lines — no spec needs that")
    for number, line in enumerate(lines, 1):
        # Some long tokens take the scanner time that grows with the square of their length.
        if len(line) > MAX_LINE:
            raise PlacedError(f"{Mark(path, number, MAX_LINE)}: a line over {MAX_LINE} characters — break it")
    return text


def _place_after(before: str, path: Path) -> Mark:
    """The place of the character that follows the text `before`."""
    lines = _LINE_BREAK.split(before)
    return Mark(path, len(lines), len(lines[-1]) + 1)


def _guarded(text: str, path: Path, builder: _Builder) -> None:
    """Feed the events of `text` to the builder; syntax errors become SpecErrors."""
    parser: Any = YAML(typ="safe", pure=True)
    try:
        for event in cast(Iterator[Any], parser.parse(text)):
            if builder.take(event):
                return
    except MarkedYAMLError as error:
        raise PlacedError("\n".join([*(line for _, line in builder.errors), _syntax(error, path)])) from None
    except (YAMLError, *_MALFORMED):
        place = f"{shown(path)}:{builder.line}:1"
        raise PlacedError(f"{place}: at or after this line the text is not YAML; look for stray characters") from None


_PLAIN_SYNTAX = (
    ("while scanning an alias", "put a pattern that starts with `*` in quotes"),
    ("that cannot start any token", "put the text in quotes"),
    (
        "mapping values are not allowed here",
        "a colon where no key can stand; indent the line, or put a text with `: ` in quotes",
    ),
    ("could not find expected ':'", "a key needs a colon and a space after it"),
    ("expected <block end>", "the indentation does not fit the lines above, or text follows a closing quote"),
    ("<document start>", "this does not belong to the lines above"),
    ("did not find expected", "something before this place was not closed"),
    ("while scanning a quoted scalar", "a quote is not closed, or holds what it cannot hold"),
    ("flow", "a bracket is not closed, or a comma is missing"),
)


def _syntax(error: Any, path: Path) -> str:
    """One line from a syntax error of ruamel.yaml."""
    mark: Any = error.problem_mark or error.context_mark
    place = f"{shown(path)}:{mark.line + 1}:{mark.column + 1}" if mark is not None else f"{shown(path)}:1:1"
    problem = " ".join(str(error.problem or error.context or "this is not YAML").split())
    if "'\\t'" in problem:
        return f"{place}: a tab — YAML is indented with spaces"
    both = f"{problem} {error.context or ''}"
    advice = next((right for sign, right in _PLAIN_SYNTAX if sign in both), "this is not YAML")
    return f"{place}: {problem} — {advice}"


@dataclass
class _Open:
    """A mapping or list that is being read."""

    mark: Mark
    key_mark: Mark
    path: tuple[Key, ...]
    values: dict[str, Node] | list[Node]
    key: str | None = None
    key_at: Mark | None = None
    first: dict[str, Mark] = field(default_factory=dict[str, Mark])


class _Builder:
    """Turns events into nodes; remembers every error with its place."""

    def __init__(self, path: Path, wanted: frozenset[str] | None = None) -> None:
        self.path = path
        self.wanted = wanted
        self.found: dict[str, Node] = {}
        self.root: Node | None = None
        self.errors: list[tuple[tuple[int, int], str]] = []
        self.line = 1
        self._open: list[_Open] = []
        self._documents = 0
        self._values = 0

    def take(self, event: Any) -> bool:
        """Use one event; True when nothing after it matters."""
        mark = Mark(self.path, event.start_mark.line + 1, event.start_mark.column + 1)
        self.line = mark.line
        if isinstance(event, DocumentStartEvent):
            return self._document(event, mark)
        if isinstance(event, AliasEvent):
            self._alias(event, mark)
        elif isinstance(event, ScalarEvent):
            self._marked(event, mark)
            self._put_scalar(event, mark)
        elif isinstance(event, SequenceStartEvent | MappingStartEvent):
            self._marked(event, mark)
            return self._begin({} if isinstance(event, MappingStartEvent) else [], mark)
        elif isinstance(event, SequenceEndEvent | MappingEndEvent):
            done = self._open.pop()
            self._place(Node(done.values, done.mark, done.key_mark, done.path))
        return self.wanted is not None and self.wanted <= self.found.keys()

    def _wrong(self, mark: Mark, message: str) -> None:
        inside = field_path(self._path())
        self.errors.append(((mark.line, mark.column), f"{mark}: {inside + ': ' if inside else ''}{message}"))

    def _path(self) -> tuple[Key, ...]:
        if not self._open:
            return ()
        top = self._open[-1]
        if isinstance(top.values, list):
            return (*top.path, len(top.values))
        return top.path if top.key is None else (*top.path, top.key)

    def _document(self, event: Any, mark: Mark) -> bool:
        self._documents += 1
        if self._documents > 1:
            self._wrong(mark, "a second document starts — one spec a file")
            return True
        if event.tags or (event.version is not None and tuple(event.version) != (1, 2)):
            self._wrong(mark, "a YAML directive (a line that starts with %) — specs need none; remove it")
            return True
        return False

    def _alias(self, event: Any, mark: Mark) -> None:
        text = quoted(f"*{event.anchor}")
        self._wrong(mark, f"the alias {text} — write the value out, or put a pattern in quotes")
        self._put(f"*{event.anchor}", mark)

    def _marked(self, event: Any, mark: Mark) -> None:
        if event.anchor is not None:
            self._wrong(mark, f"the anchor {quoted('&' + event.anchor)} — write the value where it is needed")
        if getattr(event, "tag", None) is not None:
            tag = quoted(str(event.tag).replace("tag:yaml.org,2002:", "!!", 1))
            self._wrong(mark, f"the tag {tag} — specs are plain YAML; remove it")

    def _begin(self, values: dict[str, Node] | list[Node], mark: Mark) -> bool:
        if self._expects_key():
            self._wrong(mark, "a list or mapping as a key — keys are texts")
            return True
        if len(self._open) >= MAX_DEPTH:
            self._wrong(mark, f"more than {MAX_DEPTH} levels deep — no spec needs that")
            return True
        self._open.append(_Open(mark, self._key_mark(mark), self._path(), values))
        return False

    def _expects_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].values, dict) and self._open[-1].key_at is None

    def _key_mark(self, mark: Mark) -> Mark:
        top = self._open[-1] if self._open else None
        return top.key_at if top is not None and top.key_at is not None else mark

    def _put_scalar(self, event: Any, mark: Mark) -> None:
        text: str = event.value
        value: Scalar = text
        character = unwanted_character(text)
        if character is not None:
            self._wrong(mark, f"the text holds the character {character} — use printable characters")
        if event.style is None and event.implicit[0]:
            if text == "<<" and self._expects_key():
                self._wrong(mark, "the merge key `<<` — specs build on others with `extends`")
            try:
                value = plain_scalar(text)
            except ValueError as error:
                self._wrong(mark, str(error))
        # ruamel.yaml puts a value that was left out at the next token; its key is where people look.
        self._put(value, self._key_mark(mark) if not text and event.style is None else mark)

    def _put(self, value: Any, mark: Mark) -> None:
        if self._expects_key():
            self._take_key(value, mark)
        else:
            self._place(Node(value, mark, self._key_mark(mark), self._path()))

    def _take_key(self, value: Any, mark: Mark) -> None:
        top = self._open[-1]
        if not isinstance(value, str):
            self._wrong(mark, f"{describe(value)} as a key — keys are texts; put it in quotes if it is one")
            value = str(value)
        if value in top.first:
            self._wrong(mark, f"the key {quoted(value)} stands twice, first on line {top.first[value].line} — once")
        top.first.setdefault(value, mark)
        top.key, top.key_at = value, mark

    def _place(self, node: Node) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise PlacedError(f"{node.mark}: more than {MAX_VALUES} values — no spec needs that")
        if not self._open:
            self.root = node
            return
        top = self._open[-1]
        if isinstance(top.values, list):
            top.values.append(node)
        elif top.key is not None:
            if len(self._open) == 1 and self.wanted is not None and top.key in self.wanted:
                self.found[top.key] = node
            top.values[top.key] = node
            top.key = top.key_at = None
