"""From a resolved suite to cells and measurements, each with its identity. Needs no torch and reads no result.

A measurement may need other cells of the same model and seed: on another task of the suite, or trained without one of
its components. These are planned with it, and are no cells of the suite unless they are among its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from ...adapters import adapter_version, checkpoint_digest, source_digest
from ...tasks import family_source_digest, load_task
from ...tasks.errors import SpecError
from ..protocols import load_protocol
from ..spec.dump import resolved_values
from ..spec.identity import MEASURES, TRAINS, cell_identity, digest, measurement_identity, part, suite_identity
from ..spec.load import Located, ResolvedSuite, resolve_suite
from ..spec.results import CellKey, SuiteRecord
from ..spec.schema import (
    AnyModel,
    Gate,
    HuggingFaceModel,
    MambaSsmModel,
    ProtocolSpec,
    TaskSpec,
    TorchModuleModel,
    Training,
    symbols_for,
)
from .errors import CellFailed
from .relations import declared_relations, no_task
from .versions import TRAINING_VERSION

__all__ = ["Cell", "Measurement", "Plan", "make_plan", "suite_record"]

Versions = Mapping[str, int | str | None]
CellPart = Literal["model", "task", "training"]


@dataclass(frozen=True)
class Measurement:
    """One protocol on one cell.

    Attributes
    ----------
    identity : str
        Of everything that its numbers depend on.
    protocol : Located
        How it measures.
    relations : mapping of str to Cell or str
        By the protocol's name for it, each other cell that it needs, or the reason why there is none.
    """

    identity: str
    protocol: Located
    relations: Mapping[str, Cell | str] = field(default_factory=dict[str, "Cell | str"])

    @property
    def related(self) -> tuple[Cell, ...]:
        """The other cells that it needs."""
        return tuple(each for each in self.relations.values() if isinstance(each, Cell))


@dataclass(frozen=True)
class Cell:
    """One model on one task with one seed: trained once, measured by each protocol.

    Attributes
    ----------
    gate_result : str
        Identity of the measurement that reads the gate, whether or not it is among those asked for.
    without : tuple of str or None
        (component, mode) of what is ablated throughout its training, in a cell that other measurements need.
    """

    identity: str
    model: Located
    task: Located
    training: Training
    seed: int
    measurements: tuple[Measurement, ...]
    gate: Gate
    gate_protocol: Located
    gate_result: str
    versions: Versions
    without: tuple[str, str] | None = None

    @property
    def model_spec(self) -> AnyModel:
        """The model's spec."""
        return cast("AnyModel", self.model.spec)

    @property
    def task_spec(self) -> TaskSpec:
        """The task's spec."""
        return cast("TaskSpec", self.task.spec)

    @property
    def key(self) -> CellKey:
        """Its identity and the names of its parts."""
        return CellKey(
            identity=self.identity,
            model=self.model.name,
            task=self.task.name,
            seed=self.seed,
            without=None if self.without is None else "/".join(self.without),
        )

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
    planner = _Planner(resolved)
    cells = [
        planner.measured(planner.cell(model, task, seed))
        for model in resolved.models.values()
        for task in resolved.tasks.values()
        for seed in resolved.suite.seeds
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


class _Planner:
    """Plans single cells of a suite, each once."""

    def __init__(self, resolved: ResolvedSuite) -> None:
        self._resolved = resolved
        self._gate_protocol = _gate_protocol(resolved)
        self._versions = {
            name: _protocol_versions(protocol)
            for name, protocol in {**resolved.protocols, self._gate_protocol.name: self._gate_protocol}.items()
        }
        self._cells: dict[tuple[str, str, int, tuple[str, str] | None], Cell] = {}

    def cell(self, model: Located, task: Located, seed: int, without: tuple[str, str] | None = None) -> Cell:
        """The cell as others need it, with no measurements of its own."""
        key = (model.name, task.name, seed, without)
        if key not in self._cells:
            self._cells[key] = self._cell(model, task, seed, without)
        return self._cells[key]

    def measured(self, cell: Cell) -> Cell:
        """The cell with a measurement for each protocol of the suite."""
        found = tuple(self._measurement(cell, protocol) for protocol in self._resolved.protocols.values())
        return replace(cell, measurements=found)

    def _cell(self, model: Located, task: Located, seed: int, without: tuple[str, str] | None) -> Cell:
        model_spec = cast("AnyModel", model.spec)
        task_spec = cast("TaskSpec", task.spec)
        training = model_spec.training.resolve(task.name)
        versions = _cell_versions(model, task)
        identity = cell_identity(model_spec, task_spec, training, seed, versions, without=without)
        return Cell(
            identity=identity,
            model=model,
            task=task,
            training=training,
            seed=seed,
            measurements=(),
            gate=self._resolved.suite.gate,
            gate_protocol=self._gate_protocol,
            gate_result=self._identity(identity, model, task, self._gate_protocol, {}),
            versions=versions,
            without=without,
        )

    def _measurement(self, cell: Cell, protocol: Located) -> Measurement:
        relations = self._relations(cell, protocol)
        # What is read off a related cell depends on its weights, its data and the gate: so does its gate's identity.
        related = {name: each if isinstance(each, str) else each.gate_result for name, each in relations.items()}
        return Measurement(self._identity(cell.identity, cell.model, cell.task, protocol, related), protocol, relations)

    def _relations(self, cell: Cell, protocol: Located) -> dict[str, Cell | str]:
        found: dict[str, Cell | str] = {}
        for name, relation in declared_relations(protocol, cell.task.name).items():
            if relation.without is not None:
                found[name] = self.cell(cell.model, cell.task, cell.seed, relation.without)
            elif relation.task is not None:
                task = self._resolved.declared_tasks.get(relation.task)
                found[name] = no_task(relation.task) if task is None else self.cell(cell.model, task, cell.seed)
        if found and protocol.name == self._gate_protocol.name:
            raise SpecError(
                f"{protocol.path}: {protocol.name} gives the gate's metric and needs other cells ({', '.join(found)}); "
                "a protocol that needs none would be right for the gate"
            )
        return found

    def _identity(self, cell: str, model: Located, task: Located, protocol: Located, related: Mapping[str, str]) -> str:
        return measurement_identity(
            cell,
            cast("TaskSpec", task.spec),
            cast("ProtocolSpec", protocol.spec),
            self._resolved.suite.gate,
            self._versions[protocol.name],
            model=cast("AnyModel", model.spec),
            related=related,
        )


def _cell_versions(model: Located, task: Located) -> Versions:
    """Versions of the code that a cell's weights depend on, and digests of the user's own."""
    model_spec = cast("AnyModel", model.spec)
    task_spec = cast("TaskSpec", task.spec)
    family = load_task(task_spec.family, task_spec.params, task_spec.target, task.base)
    versions: dict[str, int | str | None] = {
        "adapter": adapter_version(model_spec.adapter),
        "task_family": family.version,
        "training": TRAINING_VERSION,
    }
    if isinstance(model_spec, TorchModuleModel):
        versions["model_source"] = source_digest(model_spec.module, model.base)
    if isinstance(model_spec, HuggingFaceModel | MambaSsmModel) and model_spec.checkpoint is not None:
        # The tokens of this task, and what is in a local folder; a revision stands for itself.
        versions["symbols"] = digest(symbols_for(model_spec, task_spec), "symbols")
        versions["checkpoint"] = checkpoint_digest(model_spec.checkpoint.model_dump(), model.base)
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
