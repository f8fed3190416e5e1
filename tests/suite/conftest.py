"""A tiny suite in a folder of its own, and ways to run it: small enough that a whole run takes about a second."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

os.environ["OMP_NUM_THREADS"] = "1"

TASK = {
    "kind": "task",
    "name": "parity8",
    "title": "Short parity",
    "family": "parity",
    "structure": "prefix_update",
    "target": "parity",
    "states": ["parity"],
    "lengths": {"train": 8, "evaluate": [8, 12]},
    "sizes": {"probe_train": 60, "probe_test": 40, "evaluate": 50},
}
MODEL = {
    "kind": "model",
    "name": "tiny",
    "title": "Tiny LSTM",
    "adapter": "reference",
    "architecture": {"type": "lstm", "blocks": 2, "width": 8, "hidden": 8},
    "training": {"learning_rate": 0.01, "steps": 12, "warmup": 3, "evaluate_every": 5, "batch_size": 8},
}
SUITE = {
    "kind": "suite",
    "name": "tiny_suite",
    "title": "Tiny suite",
    "models": ["./tiny.yaml"],
    "tasks": ["./parity8.yaml"],
    "seeds": [0],
    "protocols": ["behaviour"],
}
USER_MODEL = {
    "kind": "model",
    "name": "mine",
    "title": "My own model",
    "adapter": "torch_module",
    "module": "mine.py:build",
    "sites": {"embed": "embed", "blocks": "layers.*", "output": 0},
    "training": MODEL["training"],
}
USER_CODE = """
import torch
from torch import nn


class Mine(nn.Module):
    def __init__(self, vocab_size, classes):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, 8)
        self.layers = nn.ModuleList([nn.GRU(8, 8, batch_first=True) for _ in range(2)])
        self.head = nn.Linear(8, classes)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        for layer in self.layers:
            hidden, _ = layer(hidden)
        return self.head(hidden)


def build(vocab_size, classes):
    return Mine(vocab_size, classes)
"""
PROTOCOL = {
    "kind": "protocol",
    "name": "mine",
    "title": "My own protocol",
    "measures": "mine_protocol.py",
    "metrics": {"answer": {"title": "the answer", "unit": "share", "direction": "none"}},
}
PROTOCOL_CODE = """
from layerstate.suite.protocols import Outcome, Params as Base, Reading

VERSION = 1
MECHANISTIC = True


class Params(Base):
    pass


def measure(cell, params):
    {body}
    return Outcome([Reading("answer", 0.0)])
"""


class Workshop:
    """A folder with the specs of a tiny suite."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.out = root / "out"
        for name, spec in (("parity8", TASK), ("tiny", MODEL), ("suite", SUITE)):
            self.spec(name, spec)

    def spec(self, name: str, base: dict[str, Any], /, **changes: Any) -> Path:
        """Write a spec (JSON is YAML) with some keys changed, mappings merged."""
        path = self.root / f"{name}.yaml"
        path.write_text(json.dumps(merged(base, changes)))
        return path

    def suite(self, **changes: Any) -> Path:
        return self.spec("suite", SUITE, **changes)

    def task(self, **changes: Any) -> Path:
        return self.spec("parity8", TASK, **changes)

    def model(self, **changes: Any) -> Path:
        return self.spec("tiny", MODEL, **changes)

    def model_spec(self) -> dict[str, Any]:
        return json.loads((self.root / "tiny.yaml").read_text())

    def user_model(self, code: str = USER_CODE, folder: str = ".", **changes: Any) -> Path:
        """A model of the user's own, in a folder beside."""
        (self.root / folder).mkdir(exist_ok=True)
        (self.root / folder / "mine.py").write_text(code)
        return self.spec(f"{folder}/mine", USER_MODEL, **changes)

    def protocol(self, body: str = "pass", **changes: Any) -> Path:
        """A protocol of the user's own, whose `measure` runs `body` first."""
        (self.root / "mine_protocol.py").write_text(PROTOCOL_CODE.format(body=body))
        return self.spec("mine_protocol", PROTOCOL, **changes)

    def layerstate(self, *arguments: object) -> Any:
        """The command, in this process: `exit_code`, `stdout`, `stderr`."""
        from layerstate.suite.cli import app

        return CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="layerstate")

    def run(self, *options: object, suite: str = "suite.yaml") -> Any:
        """`layerstate run` on the suite, with one worker unless the options say otherwise."""
        workers = [] if "--workers" in options else ["--workers", "1"]
        return self.layerstate("run", self.root / suite, "--out", self.out, *workers, *options)

    def start(self, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        """The command in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "layerstate", *(str(argument) for argument in arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.root,
            preexec_fn=_hear_ctrl_c,
            **options,
        )

    def plan(self, **filters: Any) -> Any:
        from layerstate.suite.runner.plan import make_plan
        from layerstate.suite.spec.load import resolve_suite

        return make_plan(resolve_suite(str(self.root / "suite.yaml"), **filters))

    def results(self) -> dict[str, dict[str, Any]]:
        """Every result by identity, without what may differ from run to run."""
        found: dict[str, dict[str, Any]] = {}
        for path in sorted((self.out / "results").glob("*.json")):
            result = json.loads(path.read_text())
            for name in ("seconds", "forward_seconds", "shared_seconds", "peak_memory_mb", "provenance"):
                del result[name]
            found[path.stem] = result
        return found

    def cells(self) -> dict[str, dict[str, Any]]:
        """Every trained cell by identity, without what may differ from run to run."""
        found: dict[str, dict[str, Any]] = {}
        for path in sorted((self.out / "cells").glob("*/cell.json")):
            cell = json.loads(path.read_text())
            for name in ("seconds", "peak_memory_mb", "provenance"):
                del cell[name]
            found[path.parent.name] = cell
        return found

    def failures(self) -> list[dict[str, Any]]:
        files = sorted((self.out / "cells").glob("*/failure.json"))
        return [failure for path in files for failure in json.loads(path.read_text())["failures"]]


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def _hear_ctrl_c() -> None:
    """A shell starts its background jobs deaf to Ctrl-C, and their children stay so."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
