"""Run folders made of plausible numbers: valid records with everything that a board must cope with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from layerstate.suite.runner.files import render
from layerstate.suite.runner.store import CellFailures, Failure
from layerstate.suite.spec.results import CellKey, SuiteRecord

from tests.leaderboard.simulated import PROTOCOLS, TASKS, UNITS, Faults, Planned, SimulatedCell, identity

FIVE = (
    Planned("transformer", "Transformer", "transformer", {"*": 0.997, "s3": 0.81}, {"*": 0.62, "s3": 0.35}, 0.3, 1),
    Planned("mamba", "Mamba", "mamba", {"*": 0.995}, {"*": 0.80}, 0.5, 2),
    Planned("mamba2", "Mamba-2", "mamba2", {"*": 0.996}, {"*": 0.80}, 0.55, 3),
    Planned("lstm", "LSTM", "lstm", {"*": 1.0}, {"*": 0.995, "dyck": 0.88}, 0.25, 1),
    Planned("gru", "GRU", "gru", {"*": 1.0}, {"*": 0.998, "dyck": 0.93}, 0.3, -1),
)


def write_run(
    out: Path,
    *,
    models: Sequence[Planned] = FIVE,
    suite: str = "quick",
    title: str = "Quick suite",
    tasks: Sequence[str] = ("parity", "s3", "dyck"),
    seeds: Sequence[int] = (0,),
    lengths: tuple[int, ...] = (16, 24, 32),
    sequences: int = 200,
    faults: Faults | None = None,
    headline: str = "behaviour.ood_skill",
    protocols: Sequence[str] = PROTOCOLS,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Path:
    """Write a run folder as the runner does, and return it.

    `changes` maps `suite`, `task:NAME`, `protocol:NAME` to fields that replace those of the spec.
    """
    faults = faults or Faults()
    changes = changes or {}
    task_specs = {name: _task(name, lengths, sequences) | dict(changes.get(f"task:{name}", {})) for name in tasks}
    protocol_specs = {name: _protocol(name) | dict(changes.get(f"protocol:{name}", {})) for name in protocols}
    suite_spec = {
        "kind": "suite",
        "name": suite,
        "title": title,
        "description": "Small numbers, made up for tests.",
        "models": [model.name for model in models],
        "tasks": list(tasks),
        "seeds": list(seeds),
        "protocols": list(protocols),
        "headline": headline,
    } | dict(changes.get("suite", {}))
    for room in ("cells", "results", "suites"):
        (out / room).mkdir(parents=True, exist_ok=True)
    cells: list[CellKey] = []
    measurements: list[dict[str, str]] = []
    for model in models:
        for task in tasks:
            for seed in seeds:
                made = SimulatedCell(model, task, seed, task_specs[task], suite, sequences)
                cells.append(made.key)
                asked = {protocol: identity(made.key.identity, protocol) for protocol in protocols}
                measurements += [
                    {"identity": found, "cell": made.key.identity, "protocol": p} for p, found in asked.items()
                ]
                folder = out / "cells" / made.key.identity
                folder.mkdir(exist_ok=True)
                message = faults.failed.get((model.name, task, seed))
                if message is not None:
                    failure = Failure(stage="training", message=message, time="2026-03-01T10:00:00+00:00")
                    (folder / "failure.json").write_bytes(render(CellFailures(cell=made.key, failures=[failure])))
                    continue
                (folder / "cell.json").write_bytes(render(made.record()))
                for protocol, found in asked.items():
                    if (model.name, task, seed, protocol) not in faults.absent:
                        result = made.result(found, protocol, protocol_specs[protocol], faults)
                        (out / "results" / f"{found}.json").write_bytes(render(result))
    record = SuiteRecord(
        identity=identity(suite, headline, *[entry["identity"] for entry in measurements]),
        suite=suite_spec,
        tasks=task_specs,
        models={model.name: model.spec() for model in models},
        protocols=protocol_specs,
        cells=cells,
        measurements=measurements,  # pyright: ignore[reportArgumentType]
    )
    (out / "suites" / f"{suite}-{record.identity}.json").write_bytes(render(record))
    return out


def _task(name: str, lengths: tuple[int, ...], sequences: int) -> dict[str, Any]:
    title, structure, target, states, _ = TASKS[name]
    return {
        "kind": "task",
        "name": name,
        "title": title,
        "description": "States are labelled at every position.",
        "cite": ["arXiv:2606.00926"],
        "family": name.partition("_")[0],
        "structure": structure,
        "params": {},
        "target": target,
        "states": states,
        "lengths": {"train": lengths[0], "evaluate": list(lengths)},
        "sizes": {"probe_train": 400, "probe_test": sequences, "evaluate": sequences},
    }


def _protocol(name: str) -> dict[str, Any]:
    return {
        "kind": "protocol",
        "name": name,
        "title": {
            "behaviour": "What the model does",
            "probe_profile": "Where the state can be read",
            "causal": "Where the state is used",
        }.get(name, name),
        "description": "Made up for tests.",
        "measures": name,
        "params": {"min_position": 0, "draws": 2000},
        "metrics": {
            metric: {
                "title": metric.replace("_", " "),
                "unit": unit,
                "direction": "higher" if name == "behaviour" else "none",
                "description": f"What {metric} says.",
            }
            for metric, unit in UNITS.get(name, {"score": "points"}).items()
        },
    }
