"""Runtime knobs of a run: none of them changes a number."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """What every worker of a run knows.

    Attributes
    ----------
    out : Path
        The run folder.
    device : str
        Where models compute: cpu, cuda, or auto for cuda where torch finds it.
    debug : bool
        Whether the tracebacks of failures are told.
    save_every : float
        Seconds between two saves of a training's state.
    trust_remote_code : bool
        Whether a checkpoint's own Python code may be run: only a person at the command line says so.
    """

    out: Path
    device: str = "auto"
    debug: bool = False
    save_every: float = 60.0
    trust_remote_code: bool = False
