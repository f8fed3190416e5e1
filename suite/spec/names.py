"""Names and paths of specs: which file a reference means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

from ...specs import FOLDER
from ...tasks.errors import SpecError
from .nodes import shown
from .suggest import did_you_mean, quoted

__all__ = ["KINDS", "NAME_RULE", "Kind", "article", "builtin_files", "builtin_names", "is_path", "spec_file"]

Kind = Literal["task", "model", "protocol", "suite", "claims"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NAME_RULE = "lower-case letters, digits, `_`, `.` and `-`, at most 64, the first a letter or digit"
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


def article(kind: str) -> str:
    """``a task``, ``claims``."""
    return kind if kind == "claims" else f"a {kind}"


def is_path(reference: str) -> bool:
    """Whether a reference is a path: it holds a separator or ends in .yaml or .yml; a bare name never is one."""
    return "/" in reference or "\\" in reference or reference.lower().endswith((".yaml", ".yml"))


def folder_of(kind: Kind) -> Path:
    """Where the built-in specs of a kind are."""
    return FOLDER / (kind if kind.endswith("s") else f"{kind}s")


def builtin_files(kind: Kind) -> dict[str, Path]:
    """Name to file of every built-in spec of a kind, in the order of the names.

    Raises
    ------
    SpecError
        If two files stand for one name.
    """
    files: dict[str, Path] = {}
    for path in sorted(folder_of(kind).glob("*.y*ml")):
        if path.suffix in (".yaml", ".yml"):
            if path.stem in files:
                raise SpecError(f"two specs of one name: {shown(files[path.stem])} and {shown(path)} — keep one")
            files[path.stem] = path
    return files


def builtin_names(kind: Kind) -> list[str]:
    """The names of the built-in specs of a kind."""
    return list(builtin_files(kind))


def spec_file(kind: Kind, reference: str, base: Path | None = None, also: Iterable[str] = ()) -> Path:
    """The file that a name or a path means.

    Parameters
    ----------
    kind : str
        What is looked for.
    reference : str
        A built-in name, or a path relative to `base` (the current folder if None).
    base : Path, optional
        The folder of the file that holds the reference.
    also : iterable of str
        Further names to suggest.

    Raises
    ------
    SpecError
        For a name that no built-in spec of this kind has; a path is not looked at.
    """
    if is_path(reference):
        return (base or Path()) / os.path.expanduser(reference)
    files = builtin_files(kind)
    if reference in files:
        return files[reference]
    beside = (base or Path()) / f"{reference}.yaml"
    if _NAME.fullmatch(reference) and beside.is_file():
        raise SpecError(f"no {kind} is called {quoted(reference)} — did you mean the file `./{reference}.yaml`?")
    raise SpecError(_unknown(kind, reference, {*files, *also}))


def _unknown(kind: Kind, reference: str, names: set[str]) -> str:
    for other in KINDS:
        if other != kind and reference in builtin_files(other):
            advice = did_you_mean(reference, names)
            return f"{quoted(reference)} is {article(other)}, {article(kind)} was expected — {advice}"
    advice = did_you_mean(reference, names) if names else "none is built in"
    if not _NAME.fullmatch(reference):
        advice = f"a name has {NAME_RULE}; {advice}"
    advice += f" (a file of your own is given by its path, such as ./{kind}.yaml)"
    return f"no {kind} is called {quoted(reference)} — {advice}"
