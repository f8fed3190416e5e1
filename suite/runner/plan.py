"""From a resolved suite to cells and measurements, each with its identity. Needs no torch and reads no result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from ...adapters import adapter_version, source_digest
from ...tasks import family_source_digest, load_task
from ..protocols import load_protocol
from ..spec.dump import resolved_values
from ..spec.identity import MEASURES, TRAINS, cell_identity, digest, measurement_identity, part, suite_identity
from ..spec.load import Located, ResolvedSuite, resolve_suite
from ..spec.results import CellKey, SuiteRecord
from ..spec.schema import Gate, ProtocolSpec, ReferenceModel, TaskSpec, TorchModuleModel, Training
from .errors import CellFailed
from .versions import TRAINING_VERSION

__all__ = ["Cell", "Measurement", "Plan", "make_plan", "suite_record"]

Versions = Mapping[str, int | str | None]
CellPart = Literal["model", "task", "training"]


@dataclass(frozen=True)
class Measurement:
    """One protocol on one cell."""

    identity: str
    protocol: Located


@dataclass(frozen=True)
class Cell:
    """One model on one task with one seed: trained once, measured by each protocol."""

    identity: str
    model: Located
    task: Located
    training: Training
    seed: int
    measurements: tuple[Measurement, ...]
    gate: Gate
    gate_protocol: Located
    versions: Versions

    @property
    def model_spec(self) -> ReferenceModel | TorchModuleModel:
        """The model's spec."""
        return cast("ReferenceModel | TorchModuleModel", self.model.spec)

    @property
    def task_spec(self) -> TaskSpec:
        """The task's spec."""
        return cast("TaskSpec", self.task.spec)

    @property
    def key(self) -> CellKey:
        """Its identity and the names of its parts."""
        return CellKey(identity=self.identity, model=self.model.name, task=self.task.name, seed=self.seed)

    @property
    def gate_length(self) -> int:
        """The length at which the gate is read."""
        return self.task_spec.lengths.train if self.gate.at_length == "train" else self.gate.at_length

    @property
    def training_tokens(self) -> int:
        """Tokens that training sees at most: its cost, among cells of one model."""
        return self.training.steps * self.training.batch_size * self.task_spec.lengths.train

    def specs(self) -> dict[CellPart, dict[str, Any]]:
        """The specs that made it, as plain values."""
        return {
            "model": resolved_values(self.model.spec),
            "task": resolved_values(self.task.spec),
            "training": resolved_values(self.training),
        }

    def expect_unchanged(self) -> None:
        """Raise CellFailed if the user's own code has changed since the plan was made: results would lie about it."""
        if _cell_versions(self.model, self.task) != self.versions:
            raise CellFailed(
                f"The code of {self.model.name} or {self.task.name} was edited while the suite was running. "
                "Run the same command again to measure it as it is now."
            )


@dataclass(frozen=True)
class Plan:
    """All cells of a suite, narrowed by filters, in its order: model, then task, then seed."""

    resolved: ResolvedSuite
    cells: tuple[Cell, ...]


def make_plan(resolved: ResolvedSuite) -> Plan:
    """Expand a suite into cells and measurements.

    Raises
    ------
    LayerstateError
        If code that a spec names cannot be found.
    """
    suite = resolved.suite
    gate_protocol = _gate_protocol(resolved)
    versions = {name: _protocol_versions(protocol) for name, protocol in resolved.protocols.items()}
    cells = [
        _cell(model, task, seed, resolved, gate_protocol, versions)
        for model in resolved.models.values()
        for task in resolved.tasks.values()
        for seed in suite.seeds
    ]
    return Plan(resolved, tuple(cells))


def suite_record(plan: Plan) -> SuiteRecord:
    """What the run folder says about the suite: whole where filters only narrow it, so that gaps can be seen.

    Its identity covers what makes models comparable (tasks, protocols, seeds, gate, headline) and no model: models that
    are run into one folder one after the other, or by different people, stand in one table. A filter that brings in a
    task, seed or protocol from outside the suite makes a variant with an identity of its own.
    """
    resolved = _widened(plan.resolved)
    whole = plan if resolved is plan.resolved else make_plan(resolved)
    suite = resolved.suite
    return SuiteRecord(
        identity=suite_identity(suite, _questions(resolved)),
        suite=resolved_values(suite),
        tasks={name: resolved_values(task.spec) for name, task in resolved.tasks.items()},
        models={name: resolved_values(model.spec) for name, model in resolved.models.items()},
        protocols={name: resolved_values(protocol.spec) for name, protocol in resolved.protocols.items()},
        cells=[cell.key for cell in whole.cells],
        measurements=[
            {"identity": each.identity, "cell": cell.identity, "protocol": each.protocol.name}
            for cell in whole.cells
            for each in cell.measurements
        ],
    )


def _cell(
    model: Located,
    task: Located,
    seed: int,
    resolved: ResolvedSuite,
    gate_protocol: Located,
    protocol_versions: Mapping[str, Versions],
) -> Cell:
    model_spec = cast("ReferenceModel | TorchModuleModel", model.spec)
    task_spec = cast("TaskSpec", task.spec)
    gate = resolved.suite.gate
    training = model_spec.training.resolve(task.name)
    versions = _cell_versions(model, task)
    identity = cell_identity(model_spec, task_spec, training, seed, versions)
    measurements = tuple(
        Measurement(
            measurement_identity(
                identity,
                task_spec,
                cast("ProtocolSpec", protocol.spec),
                gate,
                protocol_versions[name],
                model=model_spec,
            ),
            protocol,
        )
        for name, protocol in resolved.protocols.items()
    )
    return Cell(identity, model, task, training, seed, measurements, gate, gate_protocol, versions)


def _cell_versions(model: Located, task: Located) -> Versions:
    """Versions of the code that a cell's weights depend on, and digests of the user's own."""
    model_spec = cast("ReferenceModel | TorchModuleModel", model.spec)
    task_spec = cast("TaskSpec", task.spec)
    family = load_task(task_spec.family, task_spec.params, task_spec.target, task.base)
    versions: dict[str, int | str | None] = {
        "adapter": adapter_version(model_spec.adapter),
        "task_family": family.version,
        "training": TRAINING_VERSION,
    }
    if isinstance(model_spec, TorchModuleModel):
        versions["model_source"] = source_digest(model_spec.module, model.base)
    task_source = family_source_digest(task_spec.family, task.base)
    if task_source is not None:
        versions["task_source"] = task_source
    return versions


def _protocol_versions(protocol: Located) -> Versions:
    code = load_protocol(cast("ProtocolSpec", protocol.spec).measures, protocol.base)
    return {"protocol": code.version, "protocol_source": code.source_digest}


def _gate_protocol(resolved: ResolvedSuite) -> Located:
    """The protocol that gives the gate's metric; it is the suite's even where a filter leaves it out."""
    name = resolved.suite.gate.metric.partition(".")[0]
    if name in resolved.protocols:
        return resolved.protocols[name]
    return resolve_suite(str(resolved.path)).protocols[name]


def _widened(resolved: ResolvedSuite) -> ResolvedSuite:
    """The suite with all its tasks, seeds and protocols again, if what was chosen is part of it; models as chosen."""
    chosen, declared = resolved.suite, resolved.declared
    if (chosen.tasks, chosen.seeds, chosen.protocols) == (declared.tasks, declared.seeds, declared.protocols):
        return resolved
    inside = (
        set(chosen.tasks) <= set(declared.tasks)
        and set(chosen.seeds) <= set(declared.seeds)
        and set(chosen.protocols) <= set(declared.protocols)
    )
    if not inside:
        return resolved
    models = [name if name in declared.models else str(located.path) for name, located in resolved.models.items()]
    return resolve_suite(str(resolved.path), models=models)


def _questions(resolved: ResolvedSuite) -> list[str]:
    """One digest for each task, protocol and seed: what is asked of every model."""
    questions: list[str] = []
    for protocol in resolved.protocols.values():
        versions = dict(_protocol_versions(protocol))
        for task in resolved.tasks.values():
            spec = cast("TaskSpec", task.spec)
            family = load_task(spec.family, spec.params, spec.target, task.base)
            content = {
                "task": [part(spec, TRAINS), part(spec, MEASURES)],
                "protocol": part(protocol.spec, MEASURES),
                "gate": part(resolved.suite.gate, MEASURES),
                "versions": versions
                | {"task_family": family.version, "task_source": family_source_digest(spec.family, task.base)},
            }
            questions += [digest(content | {"seed": seed}, "question") for seed in resolved.suite.seeds]
    return questions
