"""Where `code_depth` takes its functions from on the Hugging Face Hub, and the cache of what they became.

The Parquet files are in huggingface_hub's cache. Their functions as lexical classes are kept beside the caches of
`datasets` (HF_DATASETS_CACHE), so that every process of a run need not tokenise them anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .code_data import Functions, functions_of, read_functions, write_functions
from .described import Origin
from .errors import TaskError
from .hub import Snapshot, extra_module, fetch, hub_module
from .lexical import CLASSES

__all__ = ["HubDataset"]

_TEXT_COLUMN = "whole_func_string"
_OTHERWISE = (
    "the task code_depth_embedded needs no network: it is another task, whose data ship with layerstate"
)  # fmt: skip


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

    def load(self, *, show: bool = False, again: bool = False) -> Functions:
        """Download and tokenise, or take what an earlier call left in the cache.

        Parameters
        ----------
        show : bool
            Whether progress is shown on standard error.
        again : bool
            Whether to start anew, whatever is in the cache.

        Raises
        ------
        TaskError
            Without the extra `hf`, without the network, or for data of another form.
        """
        datasets = _datasets()
        if Path(self.dataset).is_dir():
            return self._tokenised(datasets, self._local(), show)
        kept = self._kept(datasets)
        functions = None if again else read_functions(kept)
        if functions is None:
            snapshot = fetch(self.dataset, self.revision, [self.files], otherwise=_OTHERWISE, show=show, again=again)
            functions = self._tokenised(datasets, snapshot, show)
            self._keep(kept, functions)
        return functions

    def _local(self) -> Snapshot:
        folder = Path(self.dataset)
        files = tuple(sorted(path.relative_to(folder).as_posix() for path in folder.glob(self.files)))
        if not files:
            raise TaskError(f"cannot read {self.files!r} of data set {folder}: there is no such file", field="files")
        return Snapshot(folder, "a local folder", files)

    def _tokenised(self, datasets: Any, snapshot: Snapshot, show: bool) -> Functions:
        texts = self._texts(datasets, [snapshot.folder / name for name in snapshot.files], show)
        note = (
            f"Lexical classes, without any code text, of functions of the data set {self.dataset} at "
            f"{snapshot.commit}; each function is under the licence of the repository that it is from."
        )
        return functions_of(texts, Origin(("other",), note), snapshot.commit)

    def _texts(self, datasets: Any, paths: list[Path], show: bool) -> Iterator[str]:
        """The functions' texts, read one after the other."""
        import importlib

        parquet: Any = importlib.import_module("pyarrow.parquet")
        for path in paths:
            try:
                columns = parquet.read_schema(path).names
            except (OSError, ValueError) as error:
                raise TaskError(
                    f"{path} is damaged or no Parquet file ({error}); "
                    "'layerstate data download --again' fetches it anew",
                    field="dataset",
                ) from error
            if _TEXT_COLUMN not in columns:
                raise TaskError(
                    f"data set {self.dataset!r} has no column {_TEXT_COLUMN!r}, only {', '.join(columns)} ({path})",
                    field="dataset",
                )
        names = [str(path) for path in paths]
        rows = datasets.load_dataset(
            "parquet", data_files={"train": names}, split="train", streaming=True, columns=[_TEXT_COLUMN]
        )
        shown = datasets.utils.tqdm(
            rows.take(self.functions), total=self.functions, desc="Tokenising", unit=" functions", disable=not show
        )
        try:
            for row in shown:
                yield row[_TEXT_COLUMN]
        except (OSError, ValueError, RuntimeError) as error:
            raise TaskError(
                f"the functions of data set {self.dataset!r} cannot be read ({type(error).__name__}: {error}); "
                "'layerstate data download --again' fetches them anew",
                field="dataset",
            ) from error

    def _kept(self, datasets: Any) -> Path:
        """The file for the functions of this request; another Python may tokenise otherwise."""
        request = {**asdict(self), "classes": CLASSES, "python": list(sys.version_info[:2])}
        key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:24]
        return Path(datasets.config.HF_DATASETS_CACHE) / "layerstate" / f"code_depth-{key}.parquet"

    def _keep(self, path: Path, functions: Functions) -> None:
        """Write the file whole or not at all; without it the functions are tokenised anew next time."""
        part = path.with_name(f".tmp-{os.getpid()}-{secrets.token_hex(4)}")
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                write_functions(part, functions)
                os.replace(part, path)
            finally:
                part.unlink(missing_ok=True)


def _datasets() -> Any:
    try:
        hub_module("source 'hub'")
        return extra_module("datasets", "source 'hub'")
    except TaskError as error:
        raise TaskError(f"{error}; {_OTHERWISE}", field="source") from error
