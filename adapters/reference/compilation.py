"""How kernels are compiled by numba, and where the machine code is kept.

A kernel is compiled on its first call, which takes seconds, and then read from disk by every later process. No state of
that cache may change a result or stop a run.
"""

from __future__ import annotations

import hashlib
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache

__all__ = ["KernelCache", "compiled", "inlined"]

UNREADABLE = (OSError, EOFError, pickle.UnpicklingError)
OPTIONS = {"nogil": True, "error_model": "numpy"}


def shared_source() -> str:
    """A fingerprint of the code and the options that are built into every kernel."""
    files = (Path(__file__), Path(__file__).with_name("vector_math.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


class KernelCache(FunctionCache):
    """numba's cache on disk, which also knows the source shared by all kernels and is never a reason to fail.

    numba's own key covers the file of the kernel alone: a change of the vector arithmetic would leave old code in use.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.shared = shared_source()

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), self.shared)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled kernel, or None where it is not there; a cache that can't be read is emptied."""
        try:
            return super().load_overload(sig, target_context)
        except UNREADABLE:
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled kernel if the disk takes it."""
        with suppress(*UNREADABLE):
            super().save_overload(sig, data)


def compiled(function: Any) -> Any:
    """`function` compiled on its first call, and kept on disk where numba finds a folder that it can write to."""
    kernel: Any = njit(**OPTIONS)(function)
    # numba raises RuntimeError where it finds no such folder: then every process compiles anew.
    with suppress(RuntimeError, OSError):
        kernel._cache = KernelCache(function)
    return kernel


inlined: Any = njit(**OPTIONS)
"""For a part of a kernel in a function of its own; LLVM puts it in place."""
