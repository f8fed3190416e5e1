"""What `dump_resolved` writes loads again as the same spec, and every default is visible in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layerstate.suite.spec.dump import dump_yaml, resolved_values
from layerstate.suite.spec.load import KINDS, dump_resolved, list_specs, load_spec
from layerstate.suite.spec.located import Located
from layerstate.suite.spec.nodes import plain
from layerstate.suite.spec.read import read_text
from layerstate.suite.spec.scalars import unwanted_character
from layerstate.suite.spec.schema import (
    DATASET_FIELDS,
    ProtocolSpec,
    ReferenceModel,
    Spec,
    SuiteSpec,
    TaskSpec,
    TorchModuleModel,
)

FILE = Path("spec.yaml")


def again(spec: Spec) -> dict[str, Any]:
    """The values of a spec after writing and reading."""
    root = read_text(dump_resolved(Located(spec, FILE, read_text(b"a: 1", FILE))).encode(), FILE)
    return type(spec).model_validate(plain(root)).model_dump()


@pytest.mark.parametrize("kind", KINDS)
def test_every_built_in_spec_survives(kind: Any) -> None:
    for located in list_specs(kind):
        assert again(located.spec) == located.spec.model_dump()


character = st.characters(exclude_categories=["Cs", "Cc"]).filter(lambda one: unwanted_character(one) is None)
text = st.text(character, max_size=30) | st.sampled_from(
    [
        "no",
        "1e-4",
        "true",
        "~",
        "017",
        "0x1",
        "<<",
        "- a",
        "a: b",
        "a #b",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "'",
        '"',
        "\\",
        "a\nb",
    ]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=10
)


@given(st.dictionaries(text, values, min_size=1, max_size=4))
def test_any_values_survive_as_yaml(written: dict[str, Any]) -> None:
    read = plain(read_text(dump_yaml(written).encode(), FILE))
    assert read == written
    assert repr(read) == repr(written), "types survive too, and the order of keys"


name = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,10}", fullmatch=True)
words = st.lists(st.text(character.filter(lambda one: not one.isspace()), min_size=1), max_size=80).map(" ".join)
line = text.filter(lambda value: bool(value) and not {"\n", "\r"} & set(value))
rate = st.floats(1e-9, 100.0)
size = st.integers(1, 10**6)
described = {
    "name": name,
    "title": line,
    "description": st.none() | text.filter(bool) | words.filter(bool),
    "cite": st.lists(line, max_size=2),
}
stages = st.just([]) | st.just([{"until": 0.5, "length": 3}, {"until": 0.75, "params": {"p": 1.0}}])
recipe = {"learning_rate": rate, "steps": size, "clip": st.none() | rate, "curriculum": stages}
override = st.fixed_dictionaries({}, optional={"learning_rate": rate, "clip": st.none() | rate, "curriculum": stages})
training = st.fixed_dictionaries({**recipe, "per_task": st.dictionaries(name, override, max_size=2)})
tasks = st.fixed_dictionaries(
    {
        **described,
        "kind": st.just("task"),
        "family": line,
        "structure": st.sampled_from(["prefix_update", "stack", "other"]),
        "params": st.dictionaries(text, values, max_size=3),
        "target": st.just("a"),
        "states": st.permutations(["a", "b", "c"]).map(list),
        "lengths": size.map(lambda train: {"train": train, "evaluate": [train]}),
    }
).map(TaskSpec.model_validate)
models = st.fixed_dictionaries(
    {
        **described,
        "kind": st.just("model"),
        "adapter": st.just("reference"),
        "architecture": st.just({"type": "lstm", "blocks": 2, "width": 8, "hidden": 4}),
        "training": training,
    }
).map(ReferenceModel.model_validate)
modules = st.fixed_dictionaries(
    {
        **described,
        "kind": st.just("model"),
        "adapter": st.just("torch_module"),
        "module": line,
        "sites": st.fixed_dictionaries(
            {"embed": line, "blocks": line | st.just(["a", "b"]), "output": st.none() | st.integers(0, 3) | line}
        ),
        "components": st.dictionaries(
            name, line | st.just({"pattern": "a.*", "modes": ["zero", "bypass"]}), max_size=2
        ),
        "training": training,
    }
).map(TorchModuleModel.model_validate)
protocols = st.fixed_dictionaries(
    {
        **described,
        "kind": st.just("protocol"),
        "measures": line,
        "params": st.dictionaries(text, values, max_size=3),
        "metrics": st.dictionaries(
            name,
            st.fixed_dictionaries({"title": line, "unit": line, "direction": st.just("none")}),
            min_size=1,
            max_size=2,
        ),
    }
).map(ProtocolSpec.model_validate)
suites = st.fixed_dictionaries(
    {
        **described,
        "kind": st.just("suite"),
        "models": st.just(["m", "./n.yaml"]),
        "tasks": st.just(["t"]),
        "seeds": st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=3, unique=True),
        "protocols": st.just(["p"]),
        "gate": st.fixed_dictionaries({}, optional={"at_length": st.just("train") | size, "at_least": st.floats(0, 1)}),
        "override": st.fixed_dictionaries({}, optional={"tasks": st.just({"*": {"lengths": {"train": 3}}})}),
    }
).map(SuiteSpec.model_validate)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(tasks | models | modules | protocols | suites)
def test_any_spec_survives(spec: Spec) -> None:
    assert again(spec) == spec.model_dump()


@given(tasks)
@settings(max_examples=20)
def test_every_field_is_written_out(spec: TaskSpec) -> None:
    assert set(resolved_values(spec)) == set(TaskSpec.model_fields) - set(DATASET_FIELDS)
    stored = TaskSpec.model_validate(spec.model_dump() | {"source": "dataset", "path": "./d", "sha256": "0" * 64})
    assert set(resolved_values(stored)) == set(TaskSpec.model_fields)
    assert again(stored) == stored.model_dump()


def test_a_recipe_for_one_task_stays_as_short_as_it_was(tmp_path: Path) -> None:
    """Written out with nulls, `clip: null` (no clipping) and an untouched clip would look alike."""
    path = tmp_path / "m.yaml"
    path.write_text(
        "kind: model\nname: m\ntitle: M\nadapter: reference\n"
        "architecture: {type: gru, blocks: 1, width: 4, hidden: 4}\n"
        "training: {learning_rate: 1e-3, steps: 10, per_task: {s3: {steps: 20}, dyck: {clip: null}}}\n"
    )
    located = load_spec(path)
    path.write_text(dump_resolved(located))
    assert "s3: {steps: 20}" in path.read_text()
    reloaded = load_spec(path).spec
    assert isinstance(reloaded, ReferenceModel)
    assert (reloaded.training.resolve("s3").clip, reloaded.training.resolve("dyck").clip) == (1.0, None)
    assert reloaded.training.resolve("s3").steps == 20


def test_the_generated_texts_are_texts_that_a_spec_may_hold() -> None:
    assert unwanted_character("\ufeff é 🜁") is None
