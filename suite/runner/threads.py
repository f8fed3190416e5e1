"""One compute thread a cell, so that numbers do not depend on how many workers run."""

from __future__ import annotations

import os
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager

__all__ = ["limit_new_libraries", "one_thread"]

_VARIABLES = tuple(f"{library}_NUM_THREADS" for library in ("OMP", "MKL", "OPENBLAS", "NUMBA"))


def limit_new_libraries(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let libraries that this process, or a child with this environment, loads from now on start one thread each."""
    for variable in _VARIABLES:
        environment[variable] = "1"
    environment.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic matrix products on CUDA


@contextmanager
def one_thread() -> Generator[None]:
    """Inside, torch and the BLAS libraries compute with one thread; afterwards as many as before."""
    import torch
    from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)
