"""Where `code_depth` takes its functions from: the shipped Parquet file, or a data set on the Hugging Face Hub."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import TaskError
from .lexical import CLASSES, lexical_classes

__all__ = ["EMBEDDED_FILE", "METADATA_KEY", "Functions", "HubDataset", "embedded_functions", "functions_of"]

EMBEDDED_FILE = "code_depth_embedded.parquet"
"""Name of the shipped file in the package's folder `tasks/data`."""

METADATA_KEY = b"layerstate.code_depth"
"""Key of the file's metadata: vocabulary, packages with version and licence, and what was left out, as JSON."""

_TEXT_COLUMN = "whole_func_string"


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
    """

    classes: NDArray[np.uint8]
    lengths: NDArray[np.int64]
    left_out: int

    def digest(self) -> str:
        """SHA-256 over the lengths and the classes: the same for the same functions, however they are stored."""
        total = hashlib.sha256(self.lengths.astype("<i8").tobytes())
        total.update(self.classes.tobytes())
        return total.hexdigest()


@dataclass(frozen=True, slots=True)
class HubDataset:
    """A data set of Python functions on the Hub, or a local folder of the same form.

    Attributes
    ----------
    dataset : str
        Id on the Hub, or path of a folder.
    revision : str
        Commit or branch that is read.
    files : str
        Pattern of the Parquet files in it.
    functions : int
        How many functions are taken, from the first on.
    """

    dataset: str
    revision: str
    files: str
    functions: int

    def load(self) -> Functions:
        """Download (or take from the cache) and tokenise.

        Raises
        ------
        TaskError
            Without the package `datasets`, without the network, or for data of another form.
        """
        rows = self._rows()
        if _TEXT_COLUMN not in rows.column_names:
            raise TaskError(
                f"data set {self.dataset!r} has no column {_TEXT_COLUMN!r}, only {', '.join(rows.column_names)}",
                field="dataset",
            )
        return functions_of(rows.select(range(min(self.functions, len(rows))))[_TEXT_COLUMN])

    def _rows(self) -> Any:
        try:
            datasets: Any = importlib.import_module("datasets")
        except ImportError as error:
            raise TaskError(
                "source 'hub' needs the package datasets (pip install 'layerstate[hf]'); the task "
                "code_depth_embedded needs neither it nor the network",
                field="source",
            ) from error
        hub_errors: Any = importlib.import_module("huggingface_hub.errors")
        try:
            return datasets.load_dataset(
                self.dataset, data_files={"train": self.files}, revision=self.revision, split="train"
            )
        except (OSError, ValueError, RuntimeError, hub_errors.HfHubHTTPError) as error:
            reason = (str(error).splitlines() or [""])[0]
            raise TaskError(
                f"cannot read {self.files!r} of data set {self.dataset!r} at revision {self.revision!r} "
                f"({type(error).__name__}: {reason}). With a network, 'layerstate data download' fetches it once; "
                "without one, use the task code_depth_embedded, which is another task and ships with layerstate",
                field="dataset",
            ) from error


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
    left_out = sum(package["left_out"] for package in metadata["packages"])
    return _end_to_end([np.frombuffer(row, np.uint8) for row in table["classes"].to_pylist()], left_out)


def functions_of(texts: Iterable[str]) -> Functions:
    """Tokenise functions; those that do not tokenise are counted and left out."""
    left_out = 0
    kept: list[NDArray[np.uint8]] = []
    for text in texts:
        classes = lexical_classes(text)
        if classes is None:
            left_out += 1
        else:
            kept.append(classes)
    return _end_to_end(kept, left_out)


def _end_to_end(functions: list[NDArray[np.uint8]], left_out: int) -> Functions:
    lengths = np.array([len(function) for function in functions], dtype=np.int64)
    classes = np.concatenate(functions) if functions else np.empty(0, dtype=np.uint8)
    return Functions(classes, lengths, left_out)
