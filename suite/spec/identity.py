"""One identity for the plan, the cache, the file names and resume: a hash of everything that can change a result.

Every field of every spec has a role. `TRAINS` fields are in a cell's identity (and through it in its measurements');
`MEASURES` fields are in a measurement's identity only; `EXCLUDED` fields are in neither: they only label, or what they
stand for enters by another way. A test fails until a new field is given a role.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, cast

from pydantic import BaseModel

from .schema import AnyModel, Gate, ProtocolSpec, SuiteSpec, TaskSpec, Training

__all__ = [
    "EXCLUDED",
    "MEASURES",
    "ROLES",
    "TRAINS",
    "Role",
    "Versions",
    "canonical",
    "cell_identity",
    "digest",
    "measurement_identity",
    "part",
    "spec_identity",
    "suite_identity",
    "unclassified",
]

LENGTH = 24
"""Hex characters of an identity: 96 bits."""

Versions = Mapping[str, int | str | None]
"""Integer versions of the code that makes the numbers, and digests of source files from outside the package."""


class Role(Enum):
    """Which identity a field is part of."""

    TRAINS = "trains"
    MEASURES = "measures"
    EXCLUDED = "excluded"


TRAINS, MEASURES, EXCLUDED = Role.TRAINS, Role.MEASURES, Role.EXCLUDED


def _each(role: Role, *names: str) -> dict[str, Role]:
    return dict.fromkeys(names, role)


# A field's role holds for the plain values in it; a nested spec has roles of its own, unless the field is excluded.
_DESCRIBED = {"title": EXCLUDED, "description": EXCLUDED, "cite": EXCLUDED, "kind": EXCLUDED}
_RECIPE = _each(
    TRAINS,
    "optimizer",
    "learning_rate",
    "weight_decay",
    "beta2",
    "schedule",
    "final_share",
    "warmup",
    "batch_size",
    "steps",
    "clip",
    "evaluate_every",
    "stop_at_accuracy",
    "stop_after",
    "curriculum",
)
_FINE_TUNING = _RECIPE | _each(TRAINS, "method", "lora", "precision", "accumulate")
# A model's recipe enters a cell resolved for its task, so the general one is excluded.
_MODEL = _DESCRIBED | {"name": TRAINS, "family": EXCLUDED, "suite": EXCLUDED, "training": EXCLUDED, "adapter": TRAINS}
_SELECTIVE = _each(TRAINS, "type", "blocks", "width", "expand", "state_size", "conv_kernel", "conv1d")
_RECURRENT = _each(TRAINS, "type", "blocks", "width", "hidden")

ROLES: dict[str, dict[str, Role]] = {
    "TaskSpec": _DESCRIBED
    | {
        "name": TRAINS,
        "family": TRAINS,
        "structure": EXCLUDED,
        "params": TRAINS,
        "target": TRAINS,
        "states": MEASURES,
        "lengths": TRAINS,
        "sizes": MEASURES,
        # Of a data set only its content matters, not where it is.
        **_each(EXCLUDED, "source", "path", "config", "revision"),
        "sha256": TRAINS,
    },
    "TaskLengths": {"train": TRAINS, "evaluate": MEASURES},
    "TaskSizes": _each(MEASURES, "probe_train", "probe_test", "evaluate"),
    "CurriculumStage": _each(TRAINS, "until", "length", "params"),
    "Training": _RECIPE,
    "ModelTraining": _RECIPE | {"per_task": EXCLUDED},
    "TrainingOverride": {name: role for name, role in _RECIPE.items() if name != "optimizer"},
    "ReferenceModel": _MODEL | {"architecture": TRAINS},
    "LoraOptions": _each(TRAINS, "rank", "alpha", "dropout", "targets"),
    "FineTuning": _FINE_TUNING,
    "ModelFineTuning": _FINE_TUNING | {"per_task": EXCLUDED},
    # The tokens of the task at hand enter a cell by its versions, so that another task's change nothing.
    "Checkpoint": {"repo": TRAINS, "revision": TRAINS, "folder": EXCLUDED},
    "PretrainedSites": _each(MEASURES, "blocks", "norm"),
    "HuggingFaceModel": _MODEL
    | {"checkpoint": TRAINS, "backend": TRAINS, "symbols": EXCLUDED, "sites": MEASURES, "components": MEASURES},
    "MambaSsmModel": _MODEL | {"architecture": TRAINS, "checkpoint": TRAINS, "symbols": EXCLUDED},
    "TransformerArchitecture": _each(
        TRAINS, "type", "blocks", "width", "heads", "positions", "max_length", "mlp_ratio"
    ),
    "MambaArchitecture": _SELECTIVE,
    "Mamba2Architecture": _SELECTIVE | {"headdim": TRAINS, "signed": TRAINS},
    "LstmArchitecture": _RECURRENT,
    "GruArchitecture": _RECURRENT,
    "TorchModuleModel": _MODEL | {"module": TRAINS, "sites": MEASURES, "components": MEASURES},
    "ModuleSites": _each(MEASURES, "embed", "blocks", "output"),
    "ComponentRule": _each(MEASURES, "pattern", "output", "modes"),
    "ProtocolSpec": _DESCRIBED
    | {"name": MEASURES, "measures": MEASURES, "params": MEASURES, "metrics": MEASURES}
    # Where numbers stand and what they may be is declared to check claims, and changes none.
    | _each(EXCLUDED, "coordinates"),
    "MetricSpec": _each(EXCLUDED, "title", "at", "sometimes", "value", "description")
    | _each(MEASURES, "unit", "direction"),
    "Gate": _each(MEASURES, "metric", "at_length", "at_least"),
    # A suite only says which cells and measurements there are.
    "SuiteSpec": _DESCRIBED
    | _each(EXCLUDED, "name", "models", "tasks", "seeds", "protocols", "headline", "override")
    | {"gate": MEASURES},
    "SuiteOverride": _each(EXCLUDED, "tasks", "models", "protocols"),
    # Claims are judged on results, and change none.
    "ClaimsSpec": _DESCRIBED | _each(EXCLUDED, "name", "suite", "protocols", "models", "tasks", "claims"),
    "Claim": _each(
        EXCLUDED, "id", "says", "source", "status", "replaced_by", "expect", "also", "beside", "required_skill"
    ),
    "Expectation": _each(
        EXCLUDED,
        "metric",
        "model",
        "task",
        "at",
        "over",
        "reduce",
        "at_least",
        "at_most",
        "equals",
        "one_of",
        "more_than",
        "order",
        "not_significant",
        "tolerance",
    ),
    "MetricReference": _each(EXCLUDED, "metric", "model", "task", "at"),
}

# Left out of identities where they are not given, so that specs without them keep the identity they had before these
# fields came.
_ONLY_IF_GIVEN = {("TaskSpec", "sha256")}


def unclassified(models: Iterable[type[BaseModel]]) -> list[str]:
    """``Model.field`` of every field without a role, and of every role without a field."""
    wrong: list[str] = []
    for model in models:
        roles = ROLES.get(model.__name__, {})
        wrong += [f"{model.__name__}.{name}" for name in model.model_fields.keys() ^ roles.keys()]
    return sorted(wrong)


def canonical(value: Any) -> str:
    """The one text of a value: JSON with sorted keys and no spaces, in ASCII.

    Equal numbers have equal texts, so 1.0 is written 1 and -0.0 is written 0; true and 1 differ.

    Raises
    ------
    ValueError
        For NaN and infinity.
    TypeError
        For anything that JSON does not have, and keys that are not texts.
    """
    return json.dumps(_normal(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: Any, purpose: str = "value") -> str:
    """sha256 (64 hex characters) of the canonical text; values with different purposes never share one."""
    return hashlib.sha256(f"layerstate/{purpose}\n{canonical(value)}".encode()).hexdigest()


def part(value: Any, role: Role) -> Any:
    """What a spec gives to the identities of a role: its fields of that role, nested as in the spec."""
    kept = _part(value, role, role)
    return {} if kept is _NOTHING else kept


def cell_identity(
    model: AnyModel,
    task: TaskSpec,
    training: Training,
    seed: int,
    versions: Versions,
    *,
    without: tuple[str, str] | None = None,
) -> str:
    """The identity of a cell, 24 hex characters.

    Parameters
    ----------
    model, task : specs
        Of these, the fields that change what is trained.
    training : Training
        The recipe resolved for this task.
    seed : int
        Of initial weights and training data.
    versions : mapping
        Versions of adapter, task family and training code; digests of the user's own source files.
    without : tuple of str, optional
        (component, mode) of the component that is ablated while it is trained.
    """
    content = {
        "model": part(model, TRAINS),
        "task": part(task, TRAINS),
        "training": part(training, TRAINS),
        "seed": seed,
        "versions": dict(versions),
    }
    if without is not None:
        # Where a component is, and what its ablation does, only measures other cells; it trains this one.
        content["without"] = {"ablated": list(without), "model": part(model, MEASURES)}
    return digest(content, "cell")[:LENGTH]


def measurement_identity(
    cell: str,
    task: TaskSpec,
    protocol: ProtocolSpec,
    gate: Gate,
    versions: Versions,
    *,
    model: AnyModel,
    related: Mapping[str, str] | None = None,
) -> str:
    """The identity of a measurement, 24 hex characters.

    Parameters
    ----------
    cell : str
        The identity of the measured cell.
    task, model : specs
        Of these, the fields that change only what is measured: lengths, sizes, states; sites and components.
    protocol : ProtocolSpec
        Its code and parameters.
    gate : Gate
        It decides the status of metrics.
    versions : mapping
        The protocol's version, and the digest of its source file if it is the user's own.
    related : mapping of str to str, optional
        By relation the identity of what is read off the related cell, or the reason why there is none.
    """
    content = {
        "cell": cell,
        "model": part(model, MEASURES),
        "task": part(task, MEASURES),
        "protocol": part(protocol, MEASURES),
        "gate": part(gate, MEASURES),
        "versions": dict(versions),
    }
    if related:
        content["related"] = dict(related)
    return digest(content, "measurement")[:LENGTH]


def suite_identity(suite: SuiteSpec, measurements: Iterable[str]) -> str:
    """The identity of a suite: its name, its headline and the identities of all its measurements, in any order."""
    content = {"name": suite.name, "headline": suite.headline, "measurements": sorted(set(measurements))}
    return digest(content, "suite")[:LENGTH]


def spec_identity(spec: BaseModel) -> str:
    """The identity of a spec by itself, 24 hex characters: all of it but title, description and citations."""
    labels = {name for name in type(spec).model_fields if name in ("title", "description", "cite")}
    return digest(spec.model_dump(exclude=labels), type(spec).__name__)[:LENGTH]


_NOTHING = object()


def _part(value: Any, wanted: Role, inherited: Role) -> Any:
    if isinstance(value, BaseModel):
        kept: dict[str, Any] = {}
        for name, role in ROLES[type(value).__name__].items():
            given = getattr(value, name)
            absent = given is None and (type(value).__name__, name) in _ONLY_IF_GIVEN
            below = _NOTHING if role is EXCLUDED or absent else _part(given, wanted, role)
            if below is not _NOTHING:
                kept[name] = below
        return kept or _NOTHING
    if isinstance(value, dict):
        entries = cast(dict[str, Any], value)
        if inherited is wanted and not any(isinstance(entry, BaseModel) for entry in entries.values()):
            return entries
        parts = {key: _part(entry, wanted, inherited) for key, entry in entries.items()}
        return {key: entry for key, entry in parts.items() if entry is not _NOTHING} or _NOTHING
    if isinstance(value, list):
        parts = [_part(entry, wanted, inherited) for entry in cast(list[Any], value)]
        kept_parts = [entry for entry in parts if entry is not _NOTHING]
        return kept_parts if kept_parts or inherited is wanted else _NOTHING
    return value if inherited is wanted else _NOTHING


def _normal(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(value)
    if isinstance(value, Mapping):
        entries = cast(Mapping[Any, Any], value)
        wrong = [key for key in entries if not isinstance(key, str)]
        if wrong:
            raise TypeError(f"a key of a canonical mapping is a text, not {wrong[0]!r}")
        return {str(key): _normal(entry) for key, entry in entries.items()}
    if isinstance(value, list | tuple):
        return [_normal(entry) for entry in cast(list[Any], value)]
    raise TypeError(f"{type(value).__name__} has no canonical text")
