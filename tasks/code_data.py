"""Functions as `code_depth` uses them, lexical classes without any text: made from text, and kept in Parquet files."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .described import Origin
from .errors import TaskError
from .lexical import CLASSES, lexical_classes

__all__ = [
    "EMBEDDED_FILE",
    "METADATA_KEY",
    "Functions",
    "embedded_functions",
    "functions_of",
    "read_functions",
    "write_functions",
]

EMBEDDED_FILE = "code_depth_embedded.parquet"
"""Name of the shipped file in the package's folder `tasks/data`."""

METADATA_KEY = b"layerstate.code_depth"
"""Key of the file's metadata: vocabulary, packages with version and licence, and what was left out, as JSON."""

_UNKNOWN = Origin(("unknown",), "Functions that were given by the caller.")


@dataclass(frozen=True, slots=True)
class Functions:
    """Functions as sequences of lexical classes, end to end.

    Attributes
    ----------
    classes : uint8 array (tokens,)
        All functions, one after the other.
    lengths : int64 array (functions,)
        Tokens of each.
    left_out : int
        How many did not tokenise.
    origin : Origin
        Whose code they were.
    commit : str, optional
        Of a data set on the Hub, what its revision stood for.
    """

    classes: NDArray[np.uint8]
    lengths: NDArray[np.int64]
    left_out: int
    origin: Origin = _UNKNOWN
    commit: str | None = None

    def digest(self) -> str:
        """SHA-256 over the lengths and the classes: the same for the same functions, however they are stored."""
        total = hashlib.sha256(self.lengths.astype("<i8").tobytes())
        total.update(self.classes.tobytes())
        return total.hexdigest()


def embedded_functions() -> Functions:
    """The functions in the shipped file.

    Raises
    ------
    TaskError
        If the file is missing or was made with other lexical classes.
    """
    parquet: Any = importlib.import_module("pyarrow.parquet")
    place = resources.files(__name__.rpartition(".")[0]) / "data" / EMBEDDED_FILE
    try:
        with resources.as_file(place) as path:
            table: Any = parquet.read_table(path)
    except OSError as error:
        raise TaskError(f"cannot read {place}: {error}; install layerstate again", field="source") from error
    metadata = json.loads(table.schema.metadata[METADATA_KEY])
    if tuple(metadata["vocabulary"]) != CLASSES:
        raise TaskError(f"{place} was made with other lexical classes; make it again", field="source")
    packages = cast("list[dict[str, Any]]", metadata["packages"])
    licences = sorted({str(package["licence"]).lower() for package in packages})
    named = ", ".join(f"{package['name']} {package['version']} ({package['licence']})" for package in packages)
    note = f"Lexical classes, without any code text, of functions of these packages: {named}."
    rows = [np.frombuffer(row, np.uint8) for row in table["classes"].to_pylist()]
    return _end_to_end(rows, sum(package["left_out"] for package in packages), Origin(tuple(licences), note))


def functions_of(texts: Iterable[str], origin: Origin = _UNKNOWN, commit: str | None = None) -> Functions:
    """Tokenise functions; those that do not tokenise are counted and left out."""
    left_out = 0
    kept: list[NDArray[np.uint8]] = []
    for text in texts:
        classes = lexical_classes(text)
        if classes is None:
            left_out += 1
        else:
            kept.append(classes)
    return _end_to_end(kept, left_out, origin, commit)


def write_functions(path: Path, functions: Functions) -> None:
    """Keep functions in a Parquet file that `read_functions` reads."""
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    about = {
        "sha256": functions.digest(),
        "left_out": functions.left_out,
        "licences": functions.origin.licences,
        "note": functions.origin.note,
        "commit": functions.commit,
    }
    ends = np.cumsum(functions.lengths)
    rows = [
        functions.classes[end - length : end].tobytes() for end, length in zip(ends, functions.lengths, strict=True)
    ]
    table = arrow.table({"classes": arrow.array(rows, arrow.binary())})
    parquet.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(about)}), path, compression="zstd")


def read_functions(path: Path) -> Functions | None:
    """The functions that `write_functions` kept; None if there are none, or they are not what they were."""
    parquet: Any = importlib.import_module("pyarrow.parquet")
    try:
        table: Any = parquet.read_table(path)
        about = json.loads(table.schema.metadata[METADATA_KEY])
        origin = Origin(tuple(about["licences"]), about["note"])
        rows = [np.frombuffer(row, np.uint8) for row in table["classes"].to_pylist()]
        functions = _end_to_end(rows, about["left_out"], origin, about["commit"])
        return functions if functions.digest() == about["sha256"] else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _end_to_end(
    functions: list[NDArray[np.uint8]], left_out: int, origin: Origin, commit: str | None = None
) -> Functions:
    lengths = np.array([len(function) for function in functions], dtype=np.int64)
    classes = np.concatenate(functions) if functions else np.empty(0, dtype=np.uint8)
    return Functions(classes, lengths, left_out, origin, commit)
