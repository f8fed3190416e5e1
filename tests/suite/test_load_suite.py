"""A suite with everything it refers to: overrides, filters, checks against the code, checks between specs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from layerstate.suite.spec.load import ResolvedSuite, find_spec, load_spec, resolve_suite, validate_deep
from layerstate.suite.spec.schema import ProtocolSpec, ReferenceModel, TaskSpec
from layerstate.tasks.errors import SpecError

TASK = """\
kind: task
name: my_task
title: T
family: dyck
structure: stack
params: {bracket_types: 2, max_depth: 5}
target: depth
states: [depth, top]
lengths: {train: 8, evaluate: [8, 16]}
"""
MODEL = """\
kind: model
name: my_model
title: M
adapter: reference
architecture: {type: gru, blocks: 1, width: 8, hidden: 8}
training: {learning_rate: 1e-3, steps: 10}
"""
PROTOCOL = """\
kind: protocol
name: my_protocol
title: P
measures: behaviour
params: {min_position: 2}
metrics: {accuracy: {title: A, unit: share, direction: higher}}
"""
SUITE = """\
kind: suite
name: my_suite
title: S
models: [gru, ./my_model.yaml]
tasks: [parity, ./my_task.yaml]
seeds: [0, 1]
protocols: [behaviour, ./my_protocol.yaml]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a suite of a user's own, and another one that is the current folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name, text in (("my_task", TASK), ("my_model", MODEL), ("my_protocol", PROTOCOL), ("suite", SUITE)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def resolved(folder: Path, extra: str = "", **filters: Any) -> ResolvedSuite:
    (folder / "suite.yaml").write_text(SUITE + extra)
    return resolve_suite("../suite.yaml", **filters)


def errors(folder: Path, extra: str = "", **filters: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        resolved(folder, extra, **filters)
    return str(caught.value).replace("../", "").splitlines()


def test_references_become_names_and_start_at_the_suites_file(folder: Path) -> None:
    found = resolved(folder)
    assert list(found.models) == found.suite.models == ["gru", "my_model"]
    assert list(found.tasks) == found.suite.tasks == ["parity", "my_task"]
    assert list(found.protocols) == found.suite.protocols == ["behaviour", "my_protocol"]
    assert found.declared == found.suite


@pytest.mark.parametrize("name", ["quick", "standard"])
def test_the_built_in_suites_resolve(name: str) -> None:
    found = resolve_suite(name)
    assert list(found.models) == ["transformer", "mamba", "mamba2", "lstm", "gru"]
    assert found.suite.gate.at_least == 0.95


def test_overrides_of_all_come_first_and_those_by_name_win(folder: Path) -> None:
    found = resolved(
        folder,
        'override:\n  tasks:\n    my_task: {lengths: {train: 4}}\n    "*": {lengths: {train: 6, evaluate: [4, 6]}}\n'
        "  models: {my_model: {training: {steps: 99}}}\n  protocols: {behaviour: {params: {min_position: 3}}}\n",
    )
    lengths = {name: cast(TaskSpec, task.spec).lengths for name, task in found.tasks.items()}
    assert (lengths["my_task"].train, lengths["my_task"].evaluate) == (4, [4, 6])
    assert (lengths["parity"].train, lengths["parity"].evaluate) == (6, [4, 6])
    assert cast(ReferenceModel, found.models["my_model"].spec).training.steps == 99
    assert cast(ProtocolSpec, found.protocols["behaviour"].spec).params["min_position"] == 3


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "tasks: {my_task: {lengths: {train: 0}}}",
            "suite.yaml:8:47: override.tasks.my_task.lengths.train: the number 0",
        ),
        (
            "tasks: {my_task: {lenghts: {}}}",
            "suite.yaml:8:30: override.tasks.my_task.lenghts: unknown key — did you mean",
        ),
        (
            "tasks: {my_tsk: {}}",
            "suite.yaml:8:20: override.tasks.my_tsk: no task of this suite — did you mean `my_task`?",
        ),
        ("tasks: {dyck: {}}", "suite.yaml:8:20: override.tasks.dyck: no task of this suite"),
        (
            "tasks: {my_task: {name: x}}",
            "suite.yaml:8:30: override.tasks.my_task.name: `kind`, `name` and `extends` cannot",
        ),
        ("tasks: {my_task: {params: {max_depth: 0}}}", "suite.yaml:8:39: override.tasks.my_task.params.max_depth: "),
        ("models: {gru: {training: {steps: x}}}", "suite.yaml:8:45: override.models.gru.training.steps: the text `x`"),
        (
            "protocols: {behaviour: {params: {draw: 1}}}",
            "override.protocols.behaviour.params.draw: unknown key — did you mean",
        ),
    ],
)
def test_an_error_in_an_override_points_at_the_suites_file(folder: Path, override: str, expected: str) -> None:
    found = errors(folder, f"override: {{{override}}}\n")
    assert len(found) == 1, found
    assert expected in found[0]


def test_all_errors_of_a_suite_and_its_specs_come_at_once(folder: Path) -> None:
    (folder / "my_task.yaml").write_text(TASK.replace("family: dyck", "family: dick"))
    (folder / "my_model.yaml").write_text(MODEL.replace("width", "widht"))
    (folder / "my_protocol.yaml").unlink()
    text = "\n".join(errors(folder))
    for expected in (
        "my_task.yaml:4:9: family: there is no family 'dick'",
        "my_model.yaml:5:38: architecture.widht: unknown key — did you mean `width`?",
        "suite.yaml:7:24: protocols[1]: there is no file",
    ):
        assert expected in text


def test_two_specs_of_one_name_are_an_error_that_names_both_files(folder: Path) -> None:
    (folder / "my_model.yaml").write_text(MODEL.replace("my_model", "gru"))
    (message,) = errors(folder)
    assert message.startswith("suite.yaml:4:15: models[1]: two specs have the name `gru` (")
    assert "specs/models/gru.yaml and " in message
    assert "my_model.yaml)" in message


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (
            "gate: {metric: behavior.accuracy}",
            "suite.yaml:8:16: gate.metric: `behavior` is no protocol of this suite — did you",
        ),
        (
            "gate: {metric: behaviour.acuracy}",
            "the protocol `behaviour` has no metric `acuracy` — did you mean `accuracy`?",
        ),
        ("gate: {metric: accuracy}", "gate.metric: the text `accuracy` — protocol.metric would be right"),
        ("headline: my_protocol.skill", "suite.yaml:8:11: headline: the protocol `my_protocol` has no metric `skill`"),
        ("headline: causal.gap", "headline: `causal` is no protocol of this suite"),
        ("gate: {at_length: 8}", "suite.yaml:8:19: gate.at_length: the length 8 is not evaluated by the task `parity`"),
    ],
)
def test_gate_and_headline_must_be_measured(folder: Path, extra: str, expected: str) -> None:
    (message,) = errors(folder, extra + "\n")
    assert expected in message


def test_a_recipe_for_an_unknown_task_is_an_error(folder: Path) -> None:
    (folder / "my_model.yaml").write_text(MODEL.replace("steps: 10", "steps: 10, per_task: {partiy: {steps: 20}}"))
    (message,) = errors(folder)
    assert "my_model.yaml:6:55: training.per_task.partiy: no task `partiy` is built in or in this suite" in message
    assert "did you mean `parity`?" in message


@pytest.mark.parametrize("task", ["my_task", "s3"])
def test_a_recipe_for_a_task_of_the_suite_or_a_built_in_one_is_right(folder: Path, task: str) -> None:
    (folder / "my_model.yaml").write_text(MODEL.replace("steps: 10", f"steps: 10, per_task: {{{task}: {{steps: 20}}}}"))
    resolved(folder)


def test_parameters_of_a_curriculum_are_checked_by_the_family(folder: Path) -> None:
    stages = "per_task: {my_task: {curriculum: [{until: 0.5, params: {max_dept: 2}}]}}"
    (folder / "my_model.yaml").write_text(MODEL.replace("steps: 10", f"steps: 10, {stages}"))
    (message,) = errors(folder)
    assert "training.per_task.my_task.curriculum[0].params" in message
    assert "for the task `my_task`: " in message
    assert "max_depth" in message


def test_learned_positions_must_reach_the_longest_length(folder: Path) -> None:
    (folder / "my_model.yaml").write_text(
        MODEL.replace(
            "type: gru, blocks: 1, width: 8, hidden: 8", "type: transformer, blocks: 1, width: 8, max_length: 100"
        )
    )
    (message,) = errors(folder)
    assert "architecture.max_length: 100 learned positions, but the task `parity` is evaluated at length 120" in message


def test_learned_positions_must_reach_the_lengths_of_the_curriculum(folder: Path) -> None:
    text = MODEL.replace("type: gru, blocks: 1, width: 8, hidden: 8", "type: transformer, blocks: 1, width: 8").replace(
        "steps: 10", "steps: 10, curriculum: [{until: 0.5, length: 300}]"
    )
    (folder / "my_model.yaml").write_text(text)
    message, _ = errors(folder)  # one a task
    assert (
        "256 learned positions, but the task `parity` is trained in a stage of its curriculum at length 300" in message
    )


def test_one_file_named_twice_is_said_to_stand_twice(folder: Path) -> None:
    (folder / "suite.yaml").write_text(SUITE.replace("[gru, ", "[my_model.yaml, "))
    with pytest.raises(SpecError) as caught:
        resolve_suite("../suite.yaml")
    message = str(caught.value)
    assert "models[1]: the file `" in message
    assert "my_model.yaml` stands twice — each spec once" in message


# filters


def test_filters_narrow_in_the_suites_order_and_leave_the_declared_suite_whole(folder: Path) -> None:
    found = resolved(folder, models=["my_model", "gru"], tasks=["my_task"], seeds=[1], protocols=["behaviour"])
    assert list(found.models) == ["gru", "my_model"]
    assert (found.suite.tasks, found.suite.seeds, found.suite.protocols) == (["my_task"], [1], ["behaviour"])
    assert (found.declared.tasks, found.declared.seeds) == (["parity", "my_task"], [0, 1])


def test_empty_filters_are_none(folder: Path) -> None:
    assert resolved(folder, models=[], tasks=(), seeds=[]).suite == resolved(folder).suite


def test_a_model_from_outside_the_suite_is_added_with_the_overrides_of_all(folder: Path) -> None:
    (folder / "here" / "other.yaml").write_text(MODEL.replace("my_model", "other"))
    extra = 'override: {models: {"*": {training: {batch_size: 3}}}}\n'
    found = resolved(folder, extra, models=["./other.yaml", "lstm"])
    assert list(found.models) == ["other", "lstm"]
    assert all(cast(ReferenceModel, model.spec).training.batch_size == 3 for model in found.models.values())
    assert found.declared.models == ["gru", "my_model"]


def test_a_seed_from_outside_the_suite_is_run(folder: Path) -> None:
    assert resolved(folder, seeds=[7, 7, 0]).suite.seeds == [7, 0]
    assert "the seed -1 — a whole number from 0 to 2147483647" in errors(folder, seeds=[-1])[0]


def test_a_wrong_filter_gets_a_suggestion_from_the_suite_too(folder: Path) -> None:
    assert "did you mean `my_model`?" in errors(folder, models=["my_modle"])[0]
    assert "did you mean `transformer`?" in errors(folder, models=["transfomer"])[0]
    assert "`gru` is a model, a task was expected" in errors(folder, tasks=["gru"])[0]
    assert "there is no file `none.yaml`" in errors(folder, models=["./none.yaml"])[0]


def test_the_suites_own_file_given_as_a_path_is_the_same_model(folder: Path) -> None:
    assert list(resolved(folder, models=["../my_model.yaml"]).models) == ["my_model"]


def test_another_file_with_the_name_of_a_model_of_the_suite_is_an_error_that_names_both(folder: Path) -> None:
    (folder / "here" / "mine.yaml").write_text(MODEL.replace("my_model", "gru"))
    (message,) = errors(folder, models=["./mine.yaml"])
    assert "two specs have the name `gru` (" in message
    assert "mine.yaml" in message
    assert "gru.yaml" in message


def test_two_files_of_one_name_whose_code_may_differ_are_never_taken_for_one(folder: Path) -> None:
    text = MODEL.replace("reference", "torch_module").replace(
        "architecture: {type: gru, blocks: 1, width: 8, hidden: 8}",
        'module: mine.py:build\nsites: {embed: e, blocks: "b.*"}',
    )
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "mine.py").write_text(f"# {name}")
        (folder / name / "mine.yaml").write_text(text.replace("my_model", "mine"))
    (message,) = errors(folder, models=["../a/mine.yaml", "../b/mine.yaml"])
    assert "two specs have the name `mine`" in message
    assert list(resolved(folder, models=["../a/mine.yaml", "../a/mine.yaml"]).models) == ["mine"]


# paths


def test_paths_of_a_suite_that_is_extended_start_at_the_file_where_they_were_written(folder: Path) -> None:
    (folder / "suite.yaml").write_text(SUITE)
    (folder / "here" / "child.yaml").write_text("kind: suite\nname: child\nextends: ../suite.yaml\nseeds: [3]\n")
    found = resolve_suite("./child.yaml")
    assert (list(found.models), found.suite.seeds) == (["gru", "my_model"], [3])


def test_code_in_an_override_is_beside_the_suite_that_names_it(folder: Path) -> None:
    (folder / "there").mkdir()
    (folder / "there" / "my_task.yaml").write_text(TASK)
    (folder / "family.py").write_text("from layerstate.tasks.dyck import build\n")
    (folder / "suite.yaml").write_text(
        SUITE.replace("./my_task", "./there/my_task") + "override: {tasks: {my_task: {family: family.py:build}}}\n"
    )
    task = resolve_suite("../suite.yaml").tasks["my_task"]
    assert (task.base / cast(TaskSpec, task.spec).family.removesuffix(":build")).resolve() == folder / "family.py"


# against the code


def wrong(folder: Path, text: str) -> str:
    (folder / "spec.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        validate_deep(load_spec(folder / "spec.yaml"))
    return str(caught.value).replace(str(folder) + "/", "")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("family: dyck", "family: dick", "spec.yaml:4:9: family: there is no family 'dick'"),
        ("max_depth", "max_dept", "spec.yaml:6:28: params.max_dept: "),
        ("bracket_types: 2", "bracket_types: two", "spec.yaml:6:10: params.bracket_types: "),
        (
            "[depth, top]",
            "[depth, tops]",
            "spec.yaml:8:17: states[1]: the family has no state `tops` — did you mean `top`?",
        ),
        ("target: depth\nstates: [depth", "target: deph\nstates: [deph", "spec.yaml:7:9: target: "),
    ],
)
def test_a_task_is_checked_by_its_family(folder: Path, old: str, new: str, expected: str) -> None:
    assert wrong(folder, TASK.replace(old, new)).startswith(expected)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("measures: behaviour", "measures: behavior", "spec.yaml:4:11: measures: there is no protocol 'behavior'"),
        (
            "min_position: 2",
            "min_positon: 2",
            "spec.yaml:5:10: params.min_positon: unknown key — did you mean `min_position`?",
        ),
        (
            "min_position: 2",
            "min_position: yes",
            "spec.yaml:5:24: params.min_position: the text `yes` — a whole number",
        ),
    ],
)
def test_a_protocol_is_checked_by_its_code(folder: Path, old: str, new: str, expected: str) -> None:
    assert wrong(folder, PROTOCOL.replace(old, new)).startswith(expected)


def test_a_checked_protocol_has_every_default_filled_in(folder: Path) -> None:
    spec = validate_deep(find_spec("protocol", "../my_protocol.yaml")).spec
    assert isinstance(spec, ProtocolSpec)
    assert spec.params["min_position"] == 2
    assert len(spec.params) > 1


@pytest.mark.parametrize(
    "module", ["none.py:build", "no_such_package.module:build", "package.module", "a.py:", ":build", "a.py:not a name"]
)
def test_a_module_must_be_a_file_or_package_and_a_function(folder: Path, module: str) -> None:
    text = MODEL.replace("reference", "torch_module").replace(
        "architecture: {type: gru, blocks: 1, width: 8, hidden: 8}",
        f'module: "{module}"\nsites: {{embed: e, blocks: "b.*"}}',
    )
    assert wrong(folder, text).startswith("spec.yaml:5:9: module: ")


@pytest.mark.parametrize(
    ("measures", "params", "expected"),
    [
        ("behaviour", "min_position: 8", "8 leaves no position of a sequence of length 8 — at most 7 would be right"),
        (
            "probe_profile",
            "min_position: 9",
            "9 leaves no position of a sequence of length 8 — at most 7 would be right",
        ),
        ("causal", "min_position: 20", "20 leaves no position of a sequence of length 8 — at most 7 would be right"),
        ("component_attribution", "component: mlp, min_position: 8", "8 leaves no position of a sequence of length 8"),
    ],
)
def test_a_first_position_beyond_a_tasks_lengths_is_refused_before_anything_runs(
    folder: Path, measures: str, params: str, expected: str
) -> None:
    text = PROTOCOL.replace("behaviour", measures).replace("min_position: 2", params)
    (folder / "my_protocol.yaml").write_text(text)
    (found,) = errors(folder)
    column = text.splitlines()[4].index("min_position: ") + len("min_position: ") + 1
    assert found.startswith(f"my_protocol.yaml:5:{column}: params.min_position: for the task `my_task`: {expected}")


def test_the_shortest_length_that_a_protocol_scores_is_what_counts(folder: Path) -> None:
    (folder / "my_task.yaml").write_text(TASK.replace("[8, 16]", "[2, 8, 16]"))
    (found,) = errors(folder)
    assert "for the task `my_task`: 2 leaves no position of a sequence of length 2 — at most 1" in found
    (folder / "my_protocol.yaml").write_text(PROTOCOL.replace("behaviour", "probe_profile"))
    resolved(folder)


def test_a_first_position_that_a_suite_sets_is_refused_where_it_sets_it(folder: Path) -> None:
    (found,) = errors(folder, "override: {protocols: {my_protocol: {params: {min_position: 8}}}}\n")
    assert found.startswith(
        "suite.yaml:8:61: override.protocols.my_protocol.params.min_position: for the task `my_task`: 8"
    )
