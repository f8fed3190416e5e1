"""One spec from one file: reading, `extends`, validation."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from pydantic import BaseModel, ValidationError

from ...tasks.errors import SpecError
from .explain import problem_at, problems_of, spec_error
from .names import KINDS, Kind, article, is_path, spec_file
from .nodes import Key, Node, PlacedError, merge, plain, shown
from .read import MAX_DEPTH, describe, read_node
from .schema import (
    ClaimsSpec,
    HuggingFaceModel,
    MambaSsmModel,
    ProtocolSpec,
    ReferenceModel,
    Spec,
    SuiteSpec,
    TaskSpec,
    TorchModuleModel,
)
from .suggest import closest, did_you_mean, listed, quoted

__all__ = ["ADAPTERS", "Located", "Overrides", "find_spec", "kind_of", "load_spec", "locate"]

ADAPTERS: dict[str, type[BaseModel]] = {
    "reference": ReferenceModel,
    "torch_module": TorchModuleModel,
    "huggingface": HuggingFaceModel,
    "mamba_ssm": MambaSsmModel,
}
_CLASSES: dict[str, type[BaseModel]] = {
    "task": TaskSpec,
    "protocol": ProtocolSpec,
    "suite": SuiteSpec,
    "claims": ClaimsSpec,
}
_CODE_KEYS = ("family", "module", "measures")
_REFERENCE_LISTS = ("models", "tasks", "protocols")

Overrides = Callable[[str], list[Node]]
"""From a spec's name to the mappings that are laid over its YAML."""


@dataclass(frozen=True)
class Located:
    """A validated spec with its file and the place of every key.

    Attributes
    ----------
    spec : Spec
        The validated spec, `extends` and overrides applied.
    path : Path
        Its file; relative references in it start at ``path.parent``.
    marks : Node
        The tree it was made from: ``marks.nearest(("lengths", "train")).mark`` is a place.
    """

    spec: Spec
    path: Path
    marks: Node

    @property
    def name(self) -> str:
        """The spec's name."""
        return self.spec.name

    @property
    def base(self) -> Path:
        """The folder at which relative references in the spec start."""
        return self.path.parent

    def is_same(self, other: Located) -> bool:
        """Whether both mean the same: one file, or equal specs that name no file of the user's own code."""
        if os.path.realpath(self.path) == os.path.realpath(other.path):
            return True
        values = self.spec.model_dump()
        own_code = any(".py" in str(values.get(key)) for key in _CODE_KEYS)
        return not own_code and values == other.spec.model_dump()

    def error(self, keys: tuple[Key, ...], message: str) -> SpecError:
        """A SpecError that points at the value under `keys`."""
        return spec_error([problem_at(self.marks, keys, message)])


def load_spec(path: Path | str) -> Located:
    """The spec in one YAML file, whatever its kind.

    Raises
    ------
    SpecError
        Listing every error of the file, one line each.
    """
    return locate(Path(path))


def find_spec(kind: Kind, name_or_path: str, base: Path | None = None) -> Located:
    """The spec of a kind under a built-in name, or at a path (relative to `base`, or to the current folder).

    Raises
    ------
    SpecError
        If there is none, it is of another kind, or it is wrong.
    """
    return locate(spec_file(kind, name_or_path, base), kind)


def locate(path: Path, kind: Kind | None = None, overrides: Overrides | None = None) -> Located:
    """Read, extend, override and validate one file."""
    root = _extended(path)
    found = _kind_of(root, kind)
    if overrides is not None:
        name = root.child("name")
        for node in overrides(name.value) if name is not None and isinstance(name.value, str) else []:
            node = _rebased(node, node.mark.file, path)
            root = replace(merge(root, node), mark=root.mark, key=root.key, path=root.path)
    model = _class_of(found, root)
    try:
        spec = model.model_validate(plain(root))
    except ValidationError as error:
        raise spec_error(problems_of(error, model, root)) from None
    return Located(cast(Spec, spec), path, root)


def kind_of(path: Path) -> Kind:
    """The kind of the spec in a file; SpecError if it cannot be read or says none."""
    return _kind_of(_extended(path), None)


def _kind_of(root: Node, expected: Kind | None) -> Kind:
    node = root.child("kind")
    if node is None:
        raise _key_missing(root, "kind", f"kind: {expected}" if expected else f"one of {listed(KINDS)}")
    if node.value not in KINDS:
        right = did_you_mean(node.value, KINDS) if isinstance(node.value, str) else f"{listed(KINDS)} would be right"
        raise spec_error([problem_at(node, (), f"{describe(plain(node))} — {right}")])
    if expected is not None and node.value != expected:
        name = root.child("name")
        what = quoted(str(name.value)) if name is not None else "this"
        raise spec_error([problem_at(node, (), f"{what} is {article(node.value)}, {article(expected)} was expected")])
    return node.value


def _class_of(kind: Kind, root: Node) -> type[BaseModel]:
    if kind != "model":
        return _CLASSES[kind]
    node = root.child("adapter")
    if node is None:
        raise _key_missing(root, "adapter", listed(ADAPTERS))
    if not isinstance(node.value, str) or node.value not in ADAPTERS:
        right = did_you_mean(node.value, ADAPTERS) if isinstance(node.value, str) else "a text would be right"
        raise spec_error([problem_at(node, (), f"{describe(plain(node))} — {right} ({listed(ADAPTERS)})")])
    return ADAPTERS[node.value]


def _key_missing(root: Node, key: str, right: str) -> SpecError:
    near = next((written for written, _ in root.items() if closest(written, [key])), None)
    hint = f" ({quoted(near)} is not it)" if near else ""
    return spec_error([problem_at(root, (), f"the key {quoted(key)} is missing{hint} — {right} would be right")])


def _extended(path: Path) -> Node:
    """The file's tree laid over those that it extends.

    Each ancestor enters once, after its own ancestors, later ones over earlier ones: in a diamond, what one branch sets
    is not undone by the common ancestor that the other branch brings along.
    """
    order: list[tuple[Path, Node]] = []
    _collect(path, None, [], order)
    *ancestors, (_, own) = order
    root: Node | None = None
    for file, node in ancestors:
        node = _rebased(node.without("name", "extends"), file, path)
        root = node if root is None else merge(root, node)
    own = own.without("extends")
    return own if root is None else replace(merge(root, own), mark=own.mark, key=own.key)


def _collect(path: Path, kind: object, chain: list[Path], order: list[tuple[Path, Node]]) -> None:
    real = Path(os.path.realpath(path))
    if any(real == Path(os.path.realpath(done)) for done, _ in order):
        return
    node = read_node(path)
    own_kind = node.child("kind")
    if chain and own_kind is not None and own_kind.value != kind:
        right = f"{quoted(str(kind))}, as in {shown(chain[-1])} that extends it, would be right"
        message = f"{describe(plain(own_kind))} — {right}"
        raise spec_error([problem_at(node, ("kind",), message)])
    kind = own_kind.value if own_kind is not None else kind
    for reference in _parents(node):
        parent = _parent_file(reference, kind)
        links = [*chain, path]
        if len(links) > MAX_DEPTH:
            raise spec_error([problem_at(reference, (), f"more than {MAX_DEPTH} specs that extend each other")])
        if any(Path(os.path.realpath(parent)) == Path(os.path.realpath(link)) for link in links):
            shown_chain = " → ".join(shown(link) for link in [*links, parent])
            raise spec_error([problem_at(reference, (), f"a cycle: {shown_chain} — a spec cannot build on itself")])
        try:
            _collect(parent, kind, links, order)
        except PlacedError:
            raise
        except SpecError as error:
            raise spec_error([problem_at(reference, (), str(error))]) from None
    order.append((path, node))


def _parents(node: Node) -> list[Node]:
    """The references under `extends`."""
    extends = node.child("extends")
    if extends is None:
        return []
    entries = extends.value if isinstance(extends.value, list) else [extends]
    wrong = [entry for entry in entries if not isinstance(entry.value, str) or not entry.value]
    if wrong or not entries:
        at = wrong[0] if wrong else extends
        raise spec_error(
            [problem_at(at, (), f"{describe(plain(at))} — a name or path, or a list of them, would be right")]
        )
    return entries


def _parent_file(reference: Node, kind: object) -> Path:
    text = str(reference.value)
    if kind not in KINDS and not is_path(text):
        raise spec_error(
            [problem_at(reference, (), f"{quoted(text)} — write the `kind` first, so that the name can be found")]
        )
    try:
        return spec_file(cast(Kind, kind), text, reference.mark.file.parent)
    except SpecError as error:
        raise spec_error([problem_at(reference, (), str(error))]) from None


def _rebased(node: Node, file: Path, child: Path) -> Node:
    """A tree from `file` whose relative paths start at the folder of `child`, to which it is joined."""
    here, there = file.parent.resolve(), child.parent.resolve()
    if here == there or not isinstance(node.value, dict):
        return node

    def moved(entry: Node) -> Node:
        text = entry.value
        is_code = isinstance(text, str) and ("/" in text or ".py" in text)
        if not isinstance(text, str) or not (is_code or is_path(text)) or os.path.isabs(os.path.expanduser(text)):
            return entry
        return replace(entry, value=os.path.relpath(here / text, there))

    values = dict(node.value)
    for key in (*_CODE_KEYS, "suite"):
        if key in values:
            values[key] = moved(values[key])
    checkpoint = node.child("checkpoint")
    folder = checkpoint.child("folder") if checkpoint is not None else None
    if checkpoint is not None and folder is not None:
        entries = dict(checkpoint.items()) | {"folder": _moved_folder(folder, here, there)}
        values["checkpoint"] = replace(checkpoint, value=entries)
    if "path" in values and values.get("revision") is None:  # with a revision it is an id on the Hub
        values["path"] = _moved_folder(values["path"], here, there)
    for key in _REFERENCE_LISTS:
        entries = values[key].value if key in values else None
        if isinstance(entries, list):
            values[key] = replace(values[key], value=[moved(entry) for entry in entries])
    return replace(node, value=values)


def _moved_folder(entry: Node, here: Path, there: Path) -> Node:
    """A folder's path, written for a file in `here`, as a file in `there` would write it."""
    text = entry.value
    if not isinstance(text, str) or not text or os.path.isabs(os.path.expanduser(text)):
        return entry
    return replace(entry, value=os.path.relpath(here / text, there))
