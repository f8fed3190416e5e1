"""A user's own code: where it is, what its bytes hash to, and the function in it. Imports no torch."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from ..tasks.errors import LayerstateError
from .base import AdapterError
from .naming import instead_of

__all__ = ["UserCode", "load_function", "source_digest"]


@dataclass(frozen=True)
class UserCode:
    """While open, what the user's code raises becomes one `AdapterError`: what failed, where, and the last line.

    Attributes
    ----------
    source : str
        ``my_model.py:build`` or ``package.module:build``, as written in the spec.
    doing : str
        What was tried, for the message.
    file : Path, optional
        The user's file; its line in the message is the last one that ran.
    """

    source: str
    doing: str
    file: Path | None = None

    def __enter__(self) -> UserCode:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, LayerstateError) or not isinstance(error, Exception | SystemExit):
            return
        last = traceback.format_exception_only(error)[-1].strip()
        raise AdapterError(f"{self._place(error)}: {self.doing} failed: {last}{self._hint(error)}") from error

    def _place(self, error: BaseException) -> str:
        if isinstance(error, SyntaxError) and error.filename:
            return f"{error.filename}:{error.lineno}"
        if self.file is None:
            return self.source
        lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if _is_in(frame.f_code, self.file)]
        return f"{self.file}:{lines[-1]}" if lines else str(self.file)

    def _hint(self, error: BaseException) -> str:
        if self.file is None or not isinstance(error, ModuleNotFoundError) or not error.name:
            return ""
        if not (self.file.parent / f"{error.name}.py").is_file():
            return ""
        return (
            f". A model's file is loaded on its own, so that its identity is that of its bytes: put {error.name} into "
            "the same file, or install both as a package and write package.module:build."
        )


def load_function(source: str, base: Path) -> tuple[Callable[..., Any], Path | None]:
    """The function that `source` names, and the file it was loaded from.

    Parameters
    ----------
    source : str
        ``my_model.py:build``, the file relative to `base`; or ``package.module:build``, importable here.
    base : Path
        The folder of the YAML.

    Raises
    ------
    AdapterError
        If there is no such file, module or function, or importing it raises.
    """
    where, name = _split(source)
    if where.endswith(".py"):
        file = _find_file(where, base)
        module = _run_file(source, file)
    else:
        with UserCode(source, f"importing {where}"):
            module = importlib.import_module(where)
        file = Path(module.__file__) if module.__file__ else None
    function = getattr(module, name, None)
    if function is None:
        public = [found for found, value in vars(module).items() if callable(value) and not found.startswith("_")]
        raise AdapterError(f"{file or where} has no function {name!r}{instead_of(name, public)}")
    if not callable(function):
        raise AdapterError(
            f"{name} in {file or where} is a {type(function).__name__}; it must be a function, called as "
            f"{name}(vocab_size, classes), that returns a torch.nn.Module."
        )
    return function, file


def source_digest(source: str, base: Path | None = None) -> str:
    """The sha256 of the code that `source` names, for the identity; nothing is run or imported.

    Of a file its bytes. Of an installed package all its Python files, since the module may import any of them.

    Raises
    ------
    AdapterError
        If there is no such file or package.
    """
    where, _ = _split(source)
    if where.endswith(".py"):
        return hashlib.sha256(_read(_find_file(where, base or Path.cwd()))).hexdigest()
    digest = hashlib.sha256()
    for name, file in _package_files(where.partition(".")[0]):
        digest.update(f"{name}\0{hashlib.sha256(_read(file)).hexdigest()}\n".encode())
    return digest.hexdigest()


def _split(source: str) -> tuple[str, str]:
    where, _, name = source.rpartition(":")
    if not where or not name.isidentifier():
        raise AdapterError(f"{source!r} names no function: write my_model.py:build or package.module:build.")
    return where, name


def _find_file(where: str, base: Path) -> Path:
    file = (base / where).resolve()
    if not file.is_file():
        others = [other.name for other in file.parent.glob("*.py")] if file.parent.is_dir() else []
        raise AdapterError(f"There is no file {file}{instead_of(file.name, others)}")
    return file


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise AdapterError(f"{file} can't be read: {error.strerror}.") from error


def _run_file(source: str, file: Path) -> ModuleType:
    """The module of `file`, under a name of its own, and without byte code beside it."""
    text = _read(file)
    module = ModuleType("layerstate_user_" + hashlib.sha256(str(file).encode() + b"\0" + text).hexdigest()[:16])
    module.__file__ = str(file)
    with UserCode(source, "importing it", file), _registered(module):
        exec(compile(text, str(file), "exec", dont_inherit=True), vars(module))
    return module


@contextmanager
def _registered(module: ModuleType) -> Iterator[None]:
    """In sys.modules, where dataclasses and pickle look for it; taken out again if running it fails."""
    sys.modules[module.__name__] = module
    complete = False
    try:
        yield
        complete = True
    finally:
        if not complete:
            del sys.modules[module.__name__]


def _package_files(package: str) -> list[tuple[str, Path]]:
    """The Python files of a top-level package or module, by name inside it, in a fixed order."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or (spec.submodule_search_locations is None and not str(spec.origin).endswith(".py")):
        raise AdapterError(f"No package {package!r} is installed here. Install it, or write my_model.py:build.")
    if spec.submodule_search_locations is None:
        return [(package, Path(str(spec.origin)))]
    folders = [Path(folder) for folder in spec.submodule_search_locations]
    files = [(file.relative_to(folder).as_posix(), file) for folder in folders for file in folder.rglob("*.py")]
    return sorted(files)


def _is_in(code: Any, file: Path) -> bool:
    return code.co_filename == str(file)
