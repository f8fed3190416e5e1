"""What numbers were made with: versions, commit, device, time; and how much memory it took."""

from __future__ import annotations

import hashlib
import platform
import resource
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..spec.results import CellRecord, Provenance
from .store import now

__all__ = ["backend_of", "peak_memory_mb", "provenance", "reset_peak_memory"]


def provenance(device: Any) -> Provenance:
    """What this process computes with, now.

    Parameters
    ----------
    device : torch.device
        Where the cell's model is.
    """
    commit, dirty = _checkout()
    return Provenance(
        layerstate=version("layerstate"),
        commit=commit,
        dirty=dirty,
        python=platform.python_version(),
        torch=version("torch"),
        numpy=version("numpy"),
        platform=platform.platform(),
        device=_device_name(device),
        threads=1,
        lock=_lock_digest(),
        time=now(),
    )


def backend_of(record: CellRecord) -> str:
    """What a cell was trained with, in words: cells are compared number by number only where these are the same."""
    made = record.provenance
    return f"torch {made.torch}, {made.device}, {made.threads} thread{'s' * (made.threads != 1)}, {made.platform}"


def reset_peak_memory(device: Any) -> None:
    """Let the peak start from what is in use now (Linux; elsewhere it stays that of the process)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    if device.type == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats(device)


def peak_memory_mb(device: Any) -> float:
    """The largest memory since the reset, in MB: of the process, or of the GPU where the model is on one."""
    if device.type == "cuda":
        import torch

        return torch.cuda.max_memory_allocated(device) / 1e6
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _root() -> Path:
    """The checkout that the package runs from, if it runs from one."""
    return Path(__file__).resolve().parents[2]


@cache
def _checkout() -> tuple[str | None, bool | None]:
    if not (_root() / ".git").exists():
        return None, None
    commit = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain")
    return commit or None, None if status is None else bool(status)


def _git(*arguments: str) -> str | None:
    try:
        found = subprocess.run(["git", *arguments], cwd=_root(), capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


@cache
def _lock_digest() -> str | None:
    path = _root() / "requirements.lock"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _device_name(device: Any) -> str:
    if device.type != "cuda":
        return str(device.type)
    import torch

    return f"cuda: {torch.cuda.get_device_name(device)}"
