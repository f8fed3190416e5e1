"""The files that a page shows and the commands that it tells a reader to type."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Page:
    """A page in Markdown."""

    text: str

    @cached_property
    def files(self) -> dict[str, str]:
        """What stands in each fence that is marked ``file=NAME``."""
        return {name: text for _, name, text in _FENCE.findall(self.text) if name}

    @cached_property
    def commands(self) -> list[str]:
        """The lines of the fences marked ``bash``, without comments."""
        lines = [
            line for language, _, text in _FENCE.findall(self.text) if language == "bash" for line in text.splitlines()
        ]
        return [command for line in lines if (command := line.split("#")[0].strip())]


def run_command(words: Sequence[str], folder: Path) -> str:
    """Run `layerstate …` in a folder, where it must succeed; what it prints."""
    assert words[0] == "layerstate"
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout
