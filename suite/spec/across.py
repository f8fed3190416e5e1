"""Checks between the specs of a suite: gate, headline, recipes by task, curricula, learned positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import ValidationError

from .deep import params_problem
from .explain import Problem, problem_at, problems_of
from .located import Located
from .names import builtin_names
from .nodes import Key
from .schema import (
    AnyModel,
    HuggingFaceModel,
    MambaSsmModel,
    ProtocolSpec,
    ReferenceModel,
    SuiteSpec,
    TaskSpec,
    TransformerArchitecture,
    symbols_for,
)
from .suggest import did_you_mean, quoted

__all__ = ["problems_across", "symbol_problems"]

Specs = Mapping[str, Located]


def problems_across(suite: Located, spec: SuiteSpec, models: Specs, tasks: Specs, protocols: Specs) -> list[Problem]:
    """Everything that does not fit between a suite's specs, each of which is right by itself."""
    problems = [
        *_metric_problems(suite, ("gate", "metric"), spec.gate.metric, protocols),
        *_metric_problems(suite, ("headline",), spec.headline, protocols),
        *_gate_length_problems(suite, spec, tasks),
    ]
    for protocol in protocols.values():
        for task in tasks.values():
            problems += _params_problems(protocol, task)
    for model in models.values():
        problems += _recipe_problems(model, tasks)
        for task in tasks.values():
            problems += _pair_problems(model, task)
    return problems


def _metric_problems(suite: Located, keys: tuple[Key, ...], metric: str, protocols: Specs) -> Iterator[Problem]:
    protocol, dot, name = metric.partition(".")
    if not dot:
        yield problem_at(suite.marks, keys, f"the text {quoted(metric)} — protocol.metric would be right")
    elif protocol not in protocols:
        advice = did_you_mean(protocol, protocols)
        yield problem_at(suite.marks, keys, f"{quoted(protocol)} is no protocol of this suite — {advice}")
    else:
        metrics = cast(ProtocolSpec, protocols[protocol].spec).metrics
        if name not in metrics:
            advice = did_you_mean(name, metrics)
            yield problem_at(
                suite.marks, keys, f"the protocol {quoted(protocol)} has no metric {quoted(name)} — {advice}"
            )


def _gate_length_problems(suite: Located, spec: SuiteSpec, tasks: Specs) -> Iterator[Problem]:
    length = spec.gate.at_length
    for name, located in tasks.items():
        lengths = cast(TaskSpec, located.spec).lengths.evaluate
        if length != "train" and length not in lengths:
            message = f"the length {length} is not evaluated by the task {quoted(name)} — `train` or one of {lengths}"
            yield problem_at(suite.marks, ("gate", "at_length"), message)


def _recipe_problems(model: Located, tasks: Specs) -> Iterator[Problem]:
    known = {*builtin_names("task"), *tasks}
    spec = cast(AnyModel, model.spec)
    for name in spec.training.per_task:
        if name not in known:
            node = model.marks.nearest(("training", "per_task", name))
            message = (
                f"no task {quoted(name)} is built in or in this suite — {did_you_mean(name, known)} "
                "(the recipe for a task of your own goes into the `override` of the suite that has it)"
            )
            yield Problem(node.key, node.path, message)


def _params_problems(protocol: Located, task: Located) -> Iterator[Problem]:
    """Parameters of a protocol that no task of these lengths could be measured with."""
    from ..protocols import load_protocol

    spec, measured = cast(ProtocolSpec, protocol.spec), cast(TaskSpec, task.spec)
    code = load_protocol(spec.measures, protocol.base)
    misfit = code.params.model_validate(spec.params).misfit(measured.lengths)
    if misfit is not None:
        field, message = misfit
        yield problem_at(protocol.marks, ("params", field), f"for the task {quoted(measured.name)}: {message}")


def _pair_problems(model: Located, task: Located) -> Iterator[Problem]:
    spec, wanted = cast(AnyModel, model.spec), cast(TaskSpec, task.spec)
    override = spec.training.per_task.get(wanted.name)
    own = override is not None and override.curriculum is not None
    at: tuple[Key, ...] = ("training", "per_task", wanted.name, "curriculum") if own else ("training", "curriculum")
    try:
        curriculum = spec.training.resolve(wanted.name).curriculum
    except ValidationError as error:
        yield from problems_of(error, type(spec.training), model.marks, ("training", "per_task", wanted.name))
        return
    for number, stage in enumerate(curriculum):
        if stage.params:
            found = params_problem(task, wanted, (), wanted.params | stage.params)
            if found is not None:
                message = f"for the task {quoted(wanted.name)}: {found.message}"
                yield problem_at(model.marks, (*at, number, "params"), message)
    architecture = spec.architecture if isinstance(spec, ReferenceModel) else None
    if isinstance(architecture, TransformerArchitecture) and architecture.positions == "learned":
        stages = [(stage.length or 0, "trained in a stage of its curriculum") for stage in curriculum]
        longest, done = max([(max(wanted.lengths.evaluate), "evaluated"), *stages])
        if longest > architecture.max_length:
            message = (
                f"{architecture.max_length} learned positions, but the task {quoted(wanted.name)} is {done} "
                f"at length {longest} — at least {longest} would be right"
            )
            yield problem_at(model.marks, ("architecture", "max_length"), message)


def symbol_problems(model: Located, task: Located) -> list[Problem]:
    """Whether a pretrained model has a token for each symbol of a task."""
    spec, wanted = cast(AnyModel, model.spec), cast(TaskSpec, task.spec)
    if not isinstance(spec, HuggingFaceModel | MambaSsmModel) or spec.checkpoint is None:
        return []
    from ...tasks import load_task

    vocabulary = load_task(wanted.family, wanted.params, wanted.target, task.base).vocabulary
    given = symbols_for(spec, wanted)
    if given is None:
        message = (
            f"no tokens for the task {quoted(wanted.name)} — one for each of its {len(vocabulary)} symbols would be "
            f"right, in this order: {', '.join(vocabulary[:12])}{' …' if len(vocabulary) > 12 else ''}"
        )
        return [problem_at(model.marks, ("symbols",), message)]
    if len(given) != len(vocabulary):
        message = (
            f"{len(given)} tokens for the {len(vocabulary)} symbols {', '.join(vocabulary)} — one each would be right"
        )
        key = wanted.name if wanted.name in spec.symbols else wanted.family
        return [problem_at(model.marks, ("symbols", key), message)]
    return []
