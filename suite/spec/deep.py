"""Checks that need the code behind a spec: a family's parameters, a protocol's parameters. No torch is imported."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ...tasks.errors import LayerstateError, SpecError, TaskError
from .claimed import claims_problems
from .claimed_names import Measured
from .explain import Problem, problem_at, problems_of, spec_error
from .located import Located, find_spec
from .nodes import Key, PlacedError
from .schema import ClaimsSpec, HuggingFaceModel, MambaSsmModel, Model, ProtocolSpec, TaskSpec, TorchModuleModel
from .source import MEASURING, config_of, local_folder
from .suggest import did_you_mean, listed, quoted

if TYPE_CHECKING:
    from ...tasks.base import Task

__all__ = ["params_problem", "validate_deep"]


def validate_deep(located: Located, measured: Measured | None = None) -> Located:
    """Check a spec against the code that it names.

    A task's family is built with its parameters, and must have its target and states; a protocol's parameters are
    checked by its code, and come back with every default filled in. Claims must speak of metrics, coordinates and names
    that there are, those in the run folder on which they are to be judged included. Other kinds come back as they are.

    Raises
    ------
    SpecError
        Listing every error, at its place in the YAML.
    """
    if isinstance(located.spec, TaskSpec):
        problems = _task_problems(located, located.spec)
        if problems:
            raise spec_error(problems)
    if isinstance(located.spec, ProtocolSpec):
        return _with_checked_params(located, located.spec)
    if isinstance(located.spec, ClaimsSpec):
        problems = claims_problems(located, located.spec, measured)
        if problems:
            raise spec_error(problems)
    if isinstance(located.spec, Model):
        problems = [*_suite_problems(located, located.spec), *_module_problems(located, located.spec)]
        if problems:
            raise spec_error(problems)
    if isinstance(located.spec, HuggingFaceModel | MambaSsmModel):
        problems = _checkpoint_problems(located, located.spec)
        if problems:
            raise spec_error(problems)
    return located


def params_problem(located: Located, task: TaskSpec, keys: tuple[Key, ...], params: dict[str, Any]) -> Problem | None:
    """What is wrong with the family's parameters `params`, written under `keys` of `located`; None if nothing is."""
    from ...tasks import load_task

    try:
        load_task(task.family, params, task.target, located.base)
    except TaskError as error:
        return problem_at(located.marks, (*keys, *([error.field] if error.field else [])), str(error))
    except LayerstateError as error:
        return problem_at(located.marks, ("family",), str(error))
    return None


def _task_problems(located: Located, task: TaskSpec) -> list[Problem]:
    from ...tasks import load_task

    try:
        built = load_task(task.family, task.params, task.target, located.base)
    except TaskError as error:
        return [_task_problem(located, error)]
    except LayerstateError as error:
        return [problem_at(located.marks, ("family",), str(error))]
    if task.source == "dataset":
        problems = _dataset_problems(located, task, built)
        if problems:
            return problems
    classes = built.classes
    if task.target not in classes:
        return [_no_state(located, ("target",), task.target, classes)]
    missing = [(number, state) for number, state in enumerate(task.states) if state not in classes]
    return [_no_state(located, ("states", number), state, classes) for number, state in missing]


def _dataset_problems(located: Located, task: TaskSpec, rules: Task) -> list[Problem]:
    """What is wrong with a data set as far as its folder and its files' names show; one on the Hub is not asked for."""
    from ...tasks.labels import Labeller
    from ...tasks.stored_files import Part, find_parts

    if not isinstance(rules, Labeller):
        message = f"the family {quoted(task.family)} has no method `label`, so what is read cannot be checked"
        return [problem_at(located.marks, ("source",), f"{message} — `generator` would be right")]
    folder = local_folder(located)
    if folder is None:
        return []
    try:
        there = find_parts(folder, config_of(task))
    except TaskError as error:
        return [problem_at(located.marks, (error.field or "path",), str(error))]
    wanted = [(Part("train", task.lengths.train), ("lengths", "train"))]
    wanted += [
        (Part(split, length), ("lengths", "evaluate")) for length in task.lengths.evaluate for split in MEASURING
    ]
    held = ", ".join(f"{part.split} {part.length}" for part in sorted(there))
    problems = [
        problem_at(
            located.marks, keys, f"{folder} holds no {part.split} sequences of length {part.length}, only {held}"
        )
        for part, keys in wanted
        if part not in there
    ]
    return problems[:1]  # one says it all


def _task_problem(located: Located, error: TaskError) -> Problem:
    field = error.field
    if field is None or field in ("family", "target"):
        return problem_at(located.marks, (field or "params",), str(error))
    if located.marks.nearest(("params", field)).path[-1:] == (field,):
        node = located.marks.nearest(("params", field))
        return Problem(node.key, node.path, str(error))
    node = located.marks.nearest(("params",))
    return Problem(node.key, (*node.path, *(() if node.path else ("params",)), field), str(error))


def _no_state(located: Located, keys: tuple[Key, ...], state: str, classes: Any) -> Problem:
    message = f"the family has no state {quoted(state)} — {did_you_mean(state, classes)} ({listed(classes)})"
    return problem_at(located.marks, keys, message)


def _with_checked_params(located: Located, protocol: ProtocolSpec) -> Located:
    from ..protocols import load_protocol

    try:
        code = load_protocol(protocol.measures, located.base)
    except LayerstateError as error:
        raise located.error(("measures",), str(error)) from None
    try:
        params = code.params.model_validate(protocol.params)
    except ValidationError as error:
        raise spec_error(problems_of(error, code.params, located.marks, ("params",))) from None
    problems = _coordinate_problems(located, protocol)
    if problems:
        raise spec_error(problems)
    return replace(located, spec=protocol.model_copy(update={"params": params.model_dump()}))


def _coordinate_problems(located: Located, protocol: ProtocolSpec) -> list[Problem]:
    """Coordinates of metrics that the protocol does not declare."""
    return [
        problem_at(
            located.marks,
            ("metrics", name, field, number),
            f"{quoted(coordinate)} is not declared — {did_you_mean(coordinate, protocol.coordinates)} "
            "(say what it may be under `coordinates` of the protocol)",
        )
        for name, metric in protocol.metrics.items()
        for field, coordinates in (("at", metric.at or []), ("sometimes", metric.sometimes))
        for number, coordinate in enumerate(coordinates)
        if coordinate not in protocol.coordinates
    ]


def _suite_problems(located: Located, model: Model) -> list[Problem]:
    """Whether the suite that a model is meant for is there and right by itself."""
    if model.suite is None:
        return []
    try:
        find_spec("suite", model.suite, located.base)
    except PlacedError as error:
        message = f"the suite {quoted(model.suite)} is wrong: {error}"
    except SpecError as error:
        message = str(error)
    else:
        return []
    return [problem_at(located.marks, ("suite",), message)]


def _module_problems(located: Located, model: Model) -> list[Problem]:
    if not isinstance(model, TorchModuleModel):
        return []
    target, _, function = model.module.rpartition(":")
    if not target or not function.isidentifier():
        message = f"{quoted(model.module)} — `my_model.py:build` or `package.module:build` would be right"
        return [problem_at(located.marks, ("module",), message)]
    if target.endswith(".py") and not os.path.isfile(located.base / target):
        message = f"there is no file {quoted(target)} beside {located.path.name} — give its path from there"
        return [problem_at(located.marks, ("module",), message)]
    from ...adapters import source_digest

    try:
        source_digest(model.module, located.base)
    except LayerstateError as error:
        return [problem_at(located.marks, ("module",), str(error))]
    return []


def _checkpoint_problems(located: Located, model: HuggingFaceModel | MambaSsmModel) -> list[Problem]:
    if model.checkpoint is None or model.checkpoint.folder is None:
        return []
    from ...adapters import folder_problem

    found = folder_problem((located.base / os.path.expanduser(model.checkpoint.folder)).resolve())
    return [] if found is None else [problem_at(located.marks, ("checkpoint", "folder"), found)]
