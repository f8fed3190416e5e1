"""Simulated models: what they score, where their state reads and where it is used, as records of the runner."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from layerstate.suite.spec.results import (
    CellKey,
    CellRecord,
    Curve,
    GateReading,
    Metric,
    PackedArray,
    Provenance,
    Result,
)

from tests.leaderboard.mechanisms import MECHANISM_UNITS, mechanism

PROTOCOLS = ("behaviour", "probe_profile", "causal")
RULERS = (("means", "mean"), ("probe", "zero"), ("probe_per_feature", "zero"))
UNITS = {
    "behaviour": {
        "accuracy": "share",
        "skill": "skill",
        "sequence_accuracy": "share",
        "chance": "share",
        "retention": "share",
        "ood_skill": "skill",
    },
    "probe_profile": {
        "accuracy": "share",
        "skill": "skill",
        "chance": "share",
        "trained_gain": "skill",
        "best_site": "site",
        "best_site_index": "sites",
        "tie_set": "sites",
        "early_share": "share",
        "late_share": "share",
        "expected_site": "share",
        "shape": "word",
    },
    "causal": {
        "rank": "directions",
        "drop": "pp",
        "random_drop": "pp",
        "effect": "pp",
        "refit_accuracy": "share",
        "refit_skill": "skill",
        "causal_site": "site",
        "causal_site_index": "sites",
        "gap": "sites",
        "gap_share": "share",
    },
} | MECHANISM_UNITS
TASKS = {
    "parity": ("Parity of random bits", "prefix_update", "state", ["state"], 0.5),
    "s3": ("Word problem of S3", "prefix_update", "element", ["element", "sign"], 1 / 6),
    "dyck": ("Bounded Dyck-2, depth 10", "stack", "depth", ["depth", "top"], 0.41),
    "code_depth_embedded": ("Bracket depth of Python code", "stack", "depth", ["depth", "indent"], 0.35),
}


@dataclass(frozen=True)
class Planned:
    """A model with the behaviour it is to show.

    Attributes
    ----------
    train, ood : mapping of task to accuracy
        Token accuracy at the training length, and at the longest one; `*` stands for all tasks.
    rise : float
        Depth (share of blocks) at which the state becomes readable.
    used : int
        The causal site's index; negative for none.
    wobble : float
        Standard deviation over seeds of the accuracy at the longest length.
    """

    name: str
    title: str
    type: str
    train: Mapping[str, float] = field(default_factory=lambda: {"*": 0.999})
    ood: Mapping[str, float] = field(default_factory=lambda: {"*": 0.9})
    rise: float = 0.4
    used: int = 2
    wobble: float = 0.004
    family: str | None = None
    description: str | None = None
    own: bool = False
    blocks: int = 4

    def spec(self) -> dict[str, Any]:
        """Its resolved spec."""
        common: dict[str, Any] = {
            "kind": "model",
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "cite": [],
            "family": self.family,
            "training": {"learning_rate": 1e-3, "steps": 3000, "batch_size": 64},
        }
        if self.own:
            return common | {
                "adapter": "torch_module",
                "module": "my_model.py:build",
                "sites": {"embed": "embed", "blocks": "layers.*"},
            }
        sizes: dict[str, Any] = {"type": self.type, "blocks": self.blocks, "width": 128}
        if self.type in ("lstm", "gru"):
            sizes["hidden"] = 160
        return common | {"adapter": "reference", "architecture": sizes}


@dataclass
class Faults:
    """What is wrong with a run: keys are model, task, seed, protocol."""

    absent: set[tuple[str, str, int, str]] = field(default_factory=set)
    failed: dict[tuple[str, str, int], str] = field(default_factory=dict)
    """Cells whose training failed: model, task, seed to the message."""
    reason: str = "no_causal_site"


def identity(*parts: str) -> str:
    """An identity as the runner's look."""
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]


class SimulatedCell:
    """One model on one task with one seed."""

    def __init__(
        self, model: Planned, task: str, seed: int, spec: Mapping[str, Any], suite: str, sequences: int
    ) -> None:
        self.model, self.task, self.seed, self.spec, self.n = model, task, seed, spec, sequences
        content = repr((sorted(model.spec().items(), key=str), sorted(spec.items(), key=str), suite))
        self.key = CellKey(
            identity=identity(model.name, task, str(seed), content), model=model.name, task=task, seed=seed
        )
        self.rng = np.random.default_rng(int(self.key.identity[:8], 16))
        self.sites = ["embed", *(f"block.{index}" for index in range(model.blocks))]
        self.chance = TASKS[task][4]
        self.train = int(spec["lengths"]["train"])
        self.lengths = [int(length) for length in spec["lengths"]["evaluate"]]
        self.accuracy = _of(model.train, task)
        self.far = min(self.accuracy, _of(model.ood, task) + float(self.rng.normal(0, model.wobble)))

    def record(self) -> CellRecord:
        steps = list(range(100, 1600, 100))
        curve = [self.chance + (self.accuracy - self.chance) / (1 + np.exp(-(step - 600) / 150)) for step in steps]
        return CellRecord(
            cell=self.key,
            specs={"model": self.model.spec(), "task": dict(self.spec), "training": {}},
            parameters=123_456 + len(self.model.name),
            steps=steps[-1],
            stopped_early=self.accuracy > 0.998,
            curve=Curve(
                step=steps, loss=[float(1 - value + 0.01) for value in curve], accuracy=[float(v) for v in curve]
            ),
            clean_accuracy=self.accuracy,
            weights_sha256="0" * 64,
            seconds=12.5,
            peak_memory_mb=310.0,
            provenance=PROVENANCE,
        )

    def result(self, found: str, protocol: str, spec: Mapping[str, Any], faults: Faults) -> Result:
        measure = {"behaviour": self._behaviour, "probe_profile": self._profile, "causal": self._causal}
        if protocol in MECHANISM_UNITS:
            metrics, arrays = mechanism(self, protocol), {}
        else:
            metrics, arrays = measure.get(protocol, self._score)(faults)
        passed = self.accuracy >= 0.95
        if not passed and protocol in ("probe_profile", "causal", *MECHANISM_UNITS):
            why = f"behaviour.accuracy at length {self.train} is {self.accuracy:.3f}, below 0.95"
            metrics = [
                m.model_copy(update={"status": "below_gate", "reason": why}) if m.status == "ok" else m for m in metrics
            ]
        return Result(
            identity=found,
            cell=self.key,
            protocol=protocol,
            protocol_version=1,
            specs={"model": self.model.spec(), "task": dict(self.spec), "training": {}, "protocol": dict(spec)},
            sites=self.sites,
            chance={str(length): self._guessed(length).mean() / length for length in self.lengths},
            clean_accuracy=self.accuracy,
            gate=GateReading(
                metric="behaviour.accuracy", at_length=self.train, at_least=0.95, value=self.accuracy, passed=passed
            ),
            metrics=metrics,
            arrays={name: PackedArray.pack(values) for name, values in arrays.items()},
            digests={f"evaluate/{length}": identity(self.task, str(length), str(self.n)) for length in self.lengths},
            seconds=3.25,
            peak_memory_mb=280.0,
            provenance=PROVENANCE,
        )

    def _behaviour(self, _faults: Faults) -> tuple[list[Metric], dict[str, Any]]:
        metrics: list[Metric] = []
        arrays: dict[str, Any] = {}
        skills: dict[int, float] = {}
        for length in self.lengths:
            share = 0.0 if length == self.train else (length - self.train) / (self.lengths[-1] - self.train)
            accuracy = self.accuracy + (self.far - self.accuracy) * share
            right = _counts(self.rng, accuracy, length, self.n)
            guessed = self._guessed(length)
            arrays |= {f"correct/{length}": right, f"chance/{length}": guessed}
            value, chance = float(right.mean() / length), float(guessed.mean() / length)
            skills[length] = (value - chance) / (1 - chance)
            margin = 1.96 * float(right.std()) / length / self.n**0.5
            at = {"length": length}
            metrics += [
                _metric("behaviour", "accuracy", value, at, margin, n=self.n),
                _metric("behaviour", "skill", skills[length], at, margin / (1 - chance), n=self.n),
                _metric("behaviour", "sequence_accuracy", float((right == length).mean()), at, 0.02, n=self.n),
                _metric("behaviour", "chance", chance, at, 0.004, n=self.n),
            ]
            if length != self.train:
                metrics.append(_metric("behaviour", "retention", skills[length] / skills[self.train], at, 0.01))
        longer = [skill for length, skill in skills.items() if length > self.train]
        metrics.append(_metric("behaviour", "ood_skill", float(np.mean(longer)), {}, 0.01, n=self.n))
        return metrics, arrays

    def _profile(self, _faults: Faults) -> tuple[list[Metric], dict[str, Any]]:
        metrics: list[Metric] = []
        for number, variable in enumerate(self.spec["states"]):
            depth = np.linspace(0, 1, len(self.sites))
            top = (0.995 if self.accuracy > 0.95 else 0.6) - 0.1 * number
            start = {"stack": 0.25}.get(str(self.spec["structure"]), 0.02)
            trained = start + (top - start) / (1 + np.exp(-(depth - self.model.rise) / 0.09))
            untrained = start + (0.35 if self.spec["structure"] == "stack" else 0.06) * depth
            noise = self.rng.normal(0, 0.008, (2, len(self.sites)))
            profiles = {
                "trained": np.minimum(1.0, trained + noise[0]),
                "untrained": untrained + noise[1],
                "shuffled": noise[0] / 2,
            }
            for control, skills in profiles.items():
                for site, skill in zip(self.sites, skills, strict=True):
                    at = {"site": site, "variable": variable, "control": control}
                    share = self.chance + float(skill) * (1 - self.chance)
                    metrics.append(_metric("probe_profile", "skill", float(skill), at, 0.015, n=self.n))
                    metrics.append(_metric("probe_profile", "accuracy", share, at, 0.01, n=self.n))
                    metrics.append(_metric("probe_profile", "chance", self.chance, at, 0.004, n=self.n))
            skills = profiles["trained"]
            for site, gain in zip(self.sites, skills - profiles["untrained"], strict=True):
                metrics.append(
                    _metric("probe_profile", "trained_gain", float(gain), {"site": site, "variable": variable})
                )
            best = int(np.flatnonzero(skills >= skills.max() - 0.01)[0])
            for on in ("skill", "trained_gain"):
                at = {"variable": variable, "on": on}
                metrics += [
                    _metric("probe_profile", "best_site", self.sites[best], at),
                    _metric("probe_profile", "best_site_index", float(best), at, 0.0),
                    _metric("probe_profile", "tie_set", ", ".join(self.sites[best:]), at),
                    _metric("probe_profile", "early_share", float(skills[1] / skills.max()), at, 0.02),
                    _metric("probe_profile", "late_share", float((skills[-1] - skills[-2]) / skills.max()), at, 0.02),
                    _metric("probe_profile", "expected_site", self.model.rise, at, 0.02),
                    _metric("probe_profile", "shape", "early" if skills[1] > 0.8 * skills.max() else "gradual", at),
                ]
        return metrics, {}

    def _causal(self, faults: Faults) -> tuple[list[Metric], dict[str, Any]]:
        metrics: list[Metric] = []
        most = 100 * (self.accuracy - self.chance)
        for position, (ruler, fill) in enumerate(RULERS):
            strength = (0.97, 0.7, 0.3)[position]
            drops = [most * strength * np.exp(-abs(index - self.model.used) / 1.4) for index in range(len(self.sites))]
            if self.model.used < 0:
                drops = [0.4] * len(self.sites)
            for site, drop in zip(self.sites, drops, strict=True):
                at = {"site": site, "ruler": ruler, "fill": fill}
                left = self.chance + (0.99 - self.chance) * (0.02, 0.8, 0.97)[position]
                metrics += [
                    _metric("causal", "rank", 1.0, at),
                    _metric("causal", "drop", float(drop), at, 1.2, n=self.n),
                    _metric("causal", "random_drop", 0.5, at, 0.4, n=self.n),
                    _metric("causal", "effect", float(drop) - 0.5, at, 1.3, n=self.n),
                    _metric("causal", "refit_accuracy", left, at, 0.015, n=self.n),
                    _metric("causal", "refit_skill", (left - self.chance) / (1 - self.chance), at, 0.02, n=self.n),
                ]
            at = {"ruler": ruler, "fill": fill}
            if self.model.used < 0:
                for name in ("causal_site", "causal_site_index", "gap", "gap_share"):
                    metrics.append(_metric("causal", name, None, at).model_copy(update={"reason": faults.reason}))
                continue
            gap = float(min(len(self.sites) - 1, 2 + position // 2) - self.model.used)
            metrics += [
                _metric("causal", "causal_site", self.sites[self.model.used], at),
                _metric("causal", "causal_site_index", float(self.model.used), at, 0.0),
                _metric("causal", "gap", gap, at, 0.5),
                _metric("causal", "gap_share", gap / (len(self.sites) - 1), at, 0.1),
            ]
        return metrics, {}

    def _score(self, _faults: Faults) -> tuple[list[Metric], dict[str, Any]]:
        return [
            Metric(
                metric="score",
                value=self.far,
                low=self.far - 0.01,
                high=self.far + 0.01,
                unit="points",
                direction="higher",
            )
        ], {}

    def _guessed(self, length: int) -> Any:
        """The baseline's right positions: the same for all models and seeds."""
        rng = np.random.default_rng(int(identity(self.task, str(length), str(self.n))[:8], 16))
        return _counts(rng, self.chance, length, self.n)


PROVENANCE = Provenance(
    layerstate="0.1.0",
    commit="0123456789abcdef0123456789abcdef01234567",
    dirty=False,
    python="3.11.7",
    torch="2.13.0",
    numpy="2.4.6",
    platform="Linux-6.1-x86_64",
    device="cpu",
    threads=1,
    lock=None,
    time="2026-03-01T10:00:00+00:00",
)


def _of(values: Mapping[str, float], task: str) -> float:
    return values.get(task, values["*"])


def _counts(rng: np.random.Generator, accuracy: float, length: int, n: int) -> Any:
    """Right positions of n sequences that differ in how hard they are."""
    if accuracy <= 0.0 or accuracy >= 1.0:
        return np.full(n, length if accuracy > 0 else 0, np.int64)
    spread = 30.0
    chances = rng.beta(accuracy * spread, (1 - accuracy) * spread, n)
    return rng.binomial(length, chances)


def _metric(
    protocol: str,
    name: str,
    value: float | str | None,
    at: Mapping[str, str | int] | None = None,
    margin: float | None = None,
    n: int | None = None,
) -> Metric:
    bounded = UNITS[protocol][name] in ("share", "skill")
    low = high = None
    if isinstance(value, float) and margin is not None:
        low, high = value - margin, min(1.0, value + margin) if bounded else value + margin
        high = max(high, value)
    return Metric(
        metric=name,
        at=dict(at or {}),
        value=value,
        low=low,
        high=high,
        n=n,
        unit=UNITS[protocol][name],
        direction="higher" if protocol == "behaviour" else "none",
        status="undefined" if value is None else "ok",
    )
