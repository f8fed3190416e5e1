"""Identities: every field has a role, and changes exactly the identities that its role says."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from layerstate.suite.spec.fields import models_within
from layerstate.suite.spec.identity import (
    ROLES,
    Role,
    cell_identity,
    measurement_identity,
    part,
    spec_identity,
    suite_identity,
    unclassified,
)
from layerstate.suite.spec.schema import (
    FineTuning,
    Gate,
    GruArchitecture,
    LstmArchitecture,
    Mamba2Architecture,
    MambaArchitecture,
    ProtocolSpec,
    ReferenceModel,
    Spec,
    SuiteSpec,
    TaskSpec,
    TorchModuleModel,
    Training,
    TransformerArchitecture,
)
from pydantic import BaseModel

TASK: dict[str, Any] = {
    "kind": "task",
    "name": "t",
    "title": "T",
    "family": "parity",
    "structure": "other",
    "params": {"p": 0.5},
    "target": "a",
    "states": ["a", "b"],
    "lengths": {"train": 4, "evaluate": [4, 8]},
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "transformer": {"type": "transformer", "blocks": 2, "width": 8},
    "mamba": {"type": "mamba", "blocks": 2, "width": 32},
    "mamba2": {"type": "mamba2", "blocks": 2, "width": 32},
    "lstm": {"type": "lstm", "blocks": 2, "width": 8, "hidden": 8},
    "gru": {"type": "gru", "blocks": 2, "width": 8, "hidden": 8},
}
RECIPE: dict[str, Any] = {"learning_rate": 1e-3, "steps": 10}
MODEL: dict[str, Any] = {
    "kind": "model",
    "name": "m",
    "title": "M",
    "adapter": "reference",
    "architecture": ARCHITECTURES["mamba"],
    "training": RECIPE,
}
MODULE: dict[str, Any] = {
    "kind": "model",
    "name": "m",
    "title": "M",
    "adapter": "torch_module",
    "module": "m.py:build",
    "sites": {"embed": "e", "blocks": "l.*", "output": 0},
    "components": {"mixer": "l.*.mixer", "mlp": {"pattern": "l.*.mlp", "modes": ["zero"]}},
    "training": RECIPE,
}
PROTOCOL: dict[str, Any] = {
    "kind": "protocol",
    "name": "p",
    "title": "P",
    "measures": "behaviour",
    "params": {"draws": 10},
    "metrics": {"accuracy": {"title": "A", "unit": "share", "direction": "higher"}},
}
VERSIONS = {"adapter": 1, "task_family": 1, "training": 1}


def identities(
    *,
    task: dict[str, Any] = TASK,
    model: dict[str, Any] = MODEL,
    protocol: dict[str, Any] = PROTOCOL,
    gate: dict[str, Any] | None = None,
    seed: int = 0,
    versions: dict[str, Any] = VERSIONS,
    protocol_versions: dict[str, Any] | None = None,
) -> tuple[str, str]:
    """The identity of a cell and of a measurement of it."""
    model_class = ReferenceModel if model["adapter"] == "reference" else TorchModuleModel
    made, task_spec = model_class.model_validate(model), TaskSpec.model_validate(task)
    cell = cell_identity(made, task_spec, made.training.resolve(task_spec.name), seed, versions)
    measurement = measurement_identity(
        cell,
        task_spec,
        ProtocolSpec.model_validate(protocol),
        Gate.model_validate(gate or {}),
        protocol_versions or {"protocol": 1},
        model=made,
    )
    return cell, measurement


def changed(before: tuple[str, str], after: tuple[str, str]) -> str:
    """What a change did: to the cell (and so to its measurement), to the measurement alone, or nothing."""
    if before[0] != after[0]:
        assert before[1] != after[1], "a measurement of another cell is another measurement"
        return "cell"
    return "measurement" if before[1] != after[1] else "nothing"


EFFECT = {Role.TRAINS: "cell", Role.MEASURES: "measurement", Role.EXCLUDED: "nothing"}


def with_value(spec: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    key, _, rest = path.partition(".")
    return spec | {key: with_value(spec.get(key, {}), rest, value) if rest else value}


# roles


def test_every_field_of_every_spec_has_a_role() -> None:
    models = {model for spec in get_args(Spec) for model in models_within(spec)} | {Training, FineTuning}
    assert unclassified(models) == []
    assert {model.__name__ for model in models} == set(ROLES)


def test_a_new_field_fails_that_test_until_it_has_a_role() -> None:
    class Nested(BaseModel):
        anything: int = 0

    class TaskSpec(BaseModel):
        new_field: int = 0
        nested: dict[str, list[Nested]] = {}

    wrong = unclassified(models_within(TaskSpec))
    assert "TaskSpec.new_field" in wrong
    assert "Nested.anything" in wrong
    assert "TaskSpec.target" in wrong, "a role whose field is gone is found too"


TASK_CHANGES = {
    "name": "u",
    "title": "U",
    "description": "D",
    "cite": ["C"],
    "family": "groups",
    "structure": "stack",
    "params": {"p": 0.25},
    "target": "b",
    "states": ["b", "a"],
    "lengths.train": 8,
    "lengths.evaluate": [4, 8, 12],
    "sizes.probe_train": 7,
    "sizes.probe_test": 7,
    "sizes.evaluate": 7,
}


@pytest.mark.parametrize("path", TASK_CHANGES)
def test_a_field_of_a_task_changes_what_its_role_says(path: str) -> None:
    parts = path.split(".")
    owner = {"lengths": "TaskLengths", "sizes": "TaskSizes"}[parts[0]] if len(parts) > 1 else "TaskSpec"
    after = identities(task=with_value(TASK, path, TASK_CHANGES[path]))
    assert changed(identities(), after) == EFFECT[ROLES[owner][parts[-1]]]


RECIPE_CHANGES = {
    "learning_rate": 2e-3,
    "weight_decay": 0.5,
    "beta2": 0.98,
    "schedule": "constant",
    "final_share": 0.5,
    "warmup": 5,
    "batch_size": 5,
    "steps": 20,
    "clip": None,
    "evaluate_every": 5,
    "stop_at_accuracy": None,
    "stop_after": 5,
    "curriculum": [{"until": 0.5}],
    "per_task": {"t": {"steps": 11}},
}


@pytest.mark.parametrize("field", RECIPE_CHANGES)
def test_a_field_of_a_recipe_changes_the_cell(field: str) -> None:
    assert (
        changed(identities(), identities(model=with_value(MODEL, f"training.{field}", RECIPE_CHANGES[field]))) == "cell"
    )


@pytest.mark.parametrize("stage", [{"until": 0.25}, {"until": 0.5, "length": 2}, {"until": 0.5, "params": {"p": 0.1}}])
def test_a_field_of_a_curriculum_stage_changes_the_cell(stage: dict[str, Any]) -> None:
    before = identities(model=with_value(MODEL, "training.curriculum", [{"until": 0.5}]))
    assert changed(before, identities(model=with_value(MODEL, "training.curriculum", [stage]))) == "cell"


def test_a_recipe_for_another_task_changes_nothing() -> None:
    assert (
        changed(identities(), identities(model=with_value(MODEL, "training.per_task", {"z": {"steps": 3}})))
        == "nothing"
    )


ARCHITECTURE_CHANGES: dict[str, dict[str, Any]] = {
    "transformer": {"blocks": 3, "width": 16, "heads": 2, "positions": "none", "max_length": 9, "mlp_ratio": 2},
    "mamba": {"blocks": 3, "width": 64, "expand": 4.0, "state_size": 2, "conv_kernel": 2, "conv1d": False},
    "mamba2": {
        "blocks": 3,
        "width": 64,
        "expand": 4.0,
        "headdim": 16,
        "state_size": 2,
        "conv_kernel": 2,
        "conv1d": False,
        "signed": True,
    },
    "lstm": {"blocks": 3, "width": 16, "hidden": 16},
    "gru": {"blocks": 3, "width": 16, "hidden": 16},
}


def test_the_changes_below_touch_every_field_of_every_architecture() -> None:
    classes = [TransformerArchitecture, MambaArchitecture, Mamba2Architecture, LstmArchitecture, GruArchitecture]
    for (_, changes), model in zip(ARCHITECTURE_CHANGES.items(), classes, strict=True):
        assert {"type", *changes} == set(model.model_fields)


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind, changes in ARCHITECTURE_CHANGES.items() for field in changes]
)
def test_a_field_of_an_architecture_changes_the_cell(kind: str, field: str) -> None:
    before = with_value(MODEL, "architecture", ARCHITECTURES[kind])
    after = with_value(before, f"architecture.{field}", ARCHITECTURE_CHANGES[kind][field])
    assert changed(identities(model=before), identities(model=after)) == "cell"


def test_architectures_of_the_same_sizes_differ() -> None:
    lstm = identities(model=with_value(MODEL, "architecture", ARCHITECTURES["lstm"]))
    assert changed(lstm, identities(model=with_value(MODEL, "architecture", ARCHITECTURES["gru"]))) == "cell"


@pytest.mark.parametrize(
    ("path", "value", "effect"),
    [
        ("name", "n", "cell"),
        ("title", "N", "nothing"),
        ("description", "N", "nothing"),
        ("cite", ["N"], "nothing"),
        ("family", "N", "nothing"),
        ("module", "m.py:make", "cell"),
        ("sites.embed", "f", "measurement"),
        ("sites.blocks", ["l.0"], "measurement"),
        ("sites.output", 1, "measurement"),
        ("components", {"mixer": "l.*.mixer"}, "measurement"),
        ("components.mixer", "l.*.mix", "measurement"),
        ("components.mlp", {"pattern": "l.*.mlp", "modes": ["bypass"]}, "measurement"),
        ("components.mlp", {"pattern": "l.*.ff", "modes": ["zero"]}, "measurement"),
    ],
)
def test_a_field_of_a_module_changes_what_its_role_says(path: str, value: Any, effect: str) -> None:
    assert changed(identities(model=MODULE), identities(model=with_value(MODULE, path, value))) == effect


@pytest.mark.parametrize(
    ("path", "value", "effect"),
    [
        ("name", "q", "measurement"),
        ("title", "Q", "nothing"),
        ("description", "Q", "nothing"),
        ("cite", ["Q"], "nothing"),
        ("measures", "causal", "measurement"),
        ("params", {"draws": 20}, "measurement"),
        ("metrics.accuracy", {"title": "A", "unit": "pp", "direction": "higher"}, "measurement"),
        ("metrics.accuracy", {"title": "A", "unit": "share", "direction": "lower"}, "measurement"),
        ("metrics.accuracy", {"title": "B", "unit": "share", "direction": "higher", "description": "D"}, "nothing"),
        ("metrics.skill", {"title": "S", "unit": "share", "direction": "higher"}, "measurement"),
    ],
)
def test_a_field_of_a_protocol_changes_what_its_role_says(path: str, value: Any, effect: str) -> None:
    assert changed(identities(), identities(protocol=with_value(PROTOCOL, path, value))) == effect


@pytest.mark.parametrize("gate", [{"metric": "behaviour.skill"}, {"at_length": 8}, {"at_least": 0.5}])
def test_the_gate_changes_the_measurement(gate: dict[str, Any]) -> None:
    assert changed(identities(), identities(gate=gate)) == "measurement"


@pytest.mark.parametrize(
    ("change", "effect"),
    [
        ({"seed": 1}, "cell"),
        ({"versions": VERSIONS | {"adapter": 2}}, "cell"),
        ({"versions": VERSIONS | {"task_family": 2}}, "cell"),
        ({"versions": VERSIONS | {"training": 2}}, "cell"),
        ({"versions": VERSIONS | {"model_source": "0" * 64}}, "cell"),
        ({"protocol_versions": {"protocol": 2}}, "measurement"),
        ({"protocol_versions": {"protocol": 1, "protocol_source": "0" * 64}}, "measurement"),
    ],
)
def test_seed_versions_and_sources_matter(change: dict[str, Any], effect: str) -> None:
    assert changed(identities(), identities(**change)) == effect


# identities as a whole


def test_an_identity_is_24_hex_characters_and_pinned() -> None:
    """Pinned: a change here orphans every result that was ever stored, so it must be meant."""
    assert identities() == ("5b0f5e8f04619f65d2835406", "76da0149f104ede8550061bd")


def test_the_same_value_in_another_spelling_has_the_same_identity() -> None:
    whole = with_value(with_value(MODEL, "architecture.expand", 2), "training.learning_rate", 1)
    real = with_value(with_value(MODEL, "architecture.expand", 2.0), "training.learning_rate", 1.0)
    assert identities(model=whole) == identities(model=real)
    assert identities(task=TASK | {"params": {"p": 1}}) == identities(task=TASK | {"params": {"p": 1.0}})
    assert identities(task=TASK | {"sizes": {}}) == identities(task=TASK | {"sizes": {"probe_train": 1000}})
    reordered = dict(reversed(TASK.items()))
    assert identities(task=reordered) == identities()


def test_a_suite_is_known_by_its_name_headline_and_measurements_in_any_order() -> None:
    text: dict[str, Any] = {
        "kind": "suite",
        "name": "s",
        "title": "S",
        "models": ["m"],
        "tasks": ["t"],
        "seeds": [0],
        "protocols": ["p"],
    }
    suite = SuiteSpec.model_validate(text)
    assert suite_identity(suite, ["a", "b"]) == suite_identity(suite, ["b", "a", "a"])
    assert suite_identity(suite, ["a"]) != suite_identity(suite, ["b"])
    assert suite_identity(SuiteSpec.model_validate(text | {"headline": "p.x"}), ["a"]) != suite_identity(suite, ["a"])
    assert suite_identity(SuiteSpec.model_validate(text | {"title": "Z"}), ["a"]) == suite_identity(suite, ["a"])


def test_a_spec_by_itself_is_known_by_all_but_its_labels() -> None:
    before = spec_identity(ReferenceModel.model_validate(MODEL))
    assert spec_identity(ReferenceModel.model_validate(MODEL | {"title": "Z", "cite": ["z"]})) == before
    assert spec_identity(ReferenceModel.model_validate(with_value(MODEL, "training.steps", 11))) != before


def test_the_parts_of_a_task_are_disjoint() -> None:
    task = TaskSpec.model_validate(TASK)
    assert part(task, Role.TRAINS) == {
        "name": "t",
        "family": "parity",
        "params": {"p": 0.5},
        "target": "a",
        "lengths": {"train": 4},
    }
    assert part(task, Role.MEASURES) == {
        "states": ["a", "b"],
        "lengths": {"evaluate": [4, 8]},
        "sizes": {"probe_train": 1000, "probe_test": 500, "evaluate": 1000},
    }
