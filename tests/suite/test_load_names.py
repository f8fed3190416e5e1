"""Names, paths and `extends`: which file a reference means, and what a spec inherits."""

from __future__ import annotations

from pathlib import Path

import pytest
from layerstate.suite.spec import names
from layerstate.suite.spec.load import (
    KINDS,
    builtin_names,
    find_spec,
    headings,
    is_path,
    list_specs,
    load_spec,
    validate_deep,
)
from layerstate.tasks.errors import SpecError

MODEL = """\
kind: model
name: {name}
title: Title of {name}
adapter: reference
architecture: {{type: mamba, blocks: 2, width: 8}}
training: {{learning_rate: 1e-3, steps: 10}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with built-in specs of its own, and an empty current folder beside it."""
    for kind in ("tasks", "models", "protocols", "suites", "claims"):
        (tmp_path / "specs" / kind).mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.setattr(names, "FOLDER", tmp_path / "specs")
    monkeypatch.chdir(tmp_path / "here")
    write(tmp_path / "specs/models/mamba.yaml", MODEL.format(name="mamba"))
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def failure(kind: names.Kind, reference: str, base: Path | None = None) -> str:
    with pytest.raises(SpecError) as caught:
        find_spec(kind, reference, base)
    return str(caught.value)


@pytest.mark.parametrize("reference", ["./a", "a/b", "../a.yaml", "a.yaml", "a.YML", "a\\b", "/a"])
def test_a_path_has_a_separator_or_a_yaml_ending(reference: str) -> None:
    assert is_path(reference)


@pytest.mark.parametrize("reference", ["mamba", "mamba2.1", "a-b_c", "yaml", "..", "a:b", "tâche"])
def test_a_bare_name_never_is_a_path(reference: str) -> None:
    assert not is_path(reference)


def test_a_name_means_the_built_in_spec_even_beside_a_folder_or_file_of_that_name(folder: Path) -> None:
    (folder / "here" / "mamba").mkdir()
    write(folder / "here" / "mamba.yaml", "kind: nonsense")
    assert find_spec("model", "mamba").path == folder / "specs/models/mamba.yaml"


def test_a_path_starts_at_the_file_that_refers_to_it(folder: Path) -> None:
    write(folder / "there" / "mine.yaml", MODEL.format(name="mine"))
    assert find_spec("model", "./mine.yaml", folder / "there").name == "mine"
    assert find_spec("model", "../there/mine.yaml").name == "mine"


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("mambo", "did you mean `mamba`?"),
        ("Mamba", "did you mean `mamba`?"),
        ("MAMBA", "did you mean `mamba`?"),
        ("mam ba", "did you mean `mamba`?"),
        ("mämbä", "a name has lower-case letters"),
        ("..", "a name has lower-case letters"),
        ("", "a name has lower-case letters"),
        ("a:b", "a name has lower-case letters"),
        ("x" * 300, "a name has lower-case letters"),
        ("zzz", "`mamba` would be right (a file of your own is given by its path"),
        ("a\nb", "`a\\nb`"),
    ],
)
def test_an_unknown_name_gets_a_suggestion_on_one_line(folder: Path, reference: str, says: str) -> None:
    message = failure("model", reference)
    assert says in message
    assert "\n" not in message
    assert len(message) < 400


def test_a_file_of_that_name_in_the_current_folder_is_suggested(folder: Path) -> None:
    write(folder / "here" / "mine.yaml", MODEL.format(name="mine"))
    assert "did you mean the file `./mine.yaml`?" in failure("model", "mine")


def test_a_spec_of_another_kind_is_named_as_such(folder: Path) -> None:
    assert "`mamba` is a model, a task was expected" in failure("task", "mamba")
    message = failure("task", str(folder / "specs/models/mamba.yaml"))
    assert message.endswith("mamba.yaml:1:7: kind: `mamba` is a model, a task was expected")


def test_two_built_in_files_of_one_name_are_an_error_that_names_both(folder: Path) -> None:
    write(folder / "specs/models/mamba.yml", MODEL.format(name="mamba"))
    with pytest.raises(SpecError, match=r"two specs of one name: .*mamba\.yaml and .*mamba\.yml"):
        list_specs("model")


def test_a_broken_built_in_spec_is_an_error_not_skipped(folder: Path) -> None:
    write(folder / "specs/models/broken.yaml", "kind: model\nname: broken\n")
    with pytest.raises(SpecError, match=r"broken\.yaml:1:1: the key `adapter` is missing"):
        list_specs("model")


@pytest.mark.parametrize("kind", KINDS)
def test_every_built_in_spec_is_right_and_named_as_its_file(kind: names.Kind) -> None:
    for located in list_specs(kind):
        assert located.name == located.path.stem
        assert located.spec.kind == kind
        validate_deep(located)


@pytest.mark.parametrize("kind", KINDS)
def test_headings_say_what_the_specs_say(kind: names.Kind) -> None:
    expected = [(located.name, located.spec.title) for located in list_specs(kind)]
    assert [(heading.name, heading.title) for heading in headings(kind)] == expected
    assert builtin_names(kind) == [name for name, _ in expected]


# extends


def child(folder: Path, text: str, name: str = "child") -> Path:
    return write(folder / "here" / f"{name}.yaml", f"kind: model\nname: {name}\n{text}")


def test_a_child_merges_mappings_replaces_lists_and_inherits_no_name(folder: Path) -> None:
    write(folder / "here/base.yaml", MODEL.format(name="base") + "cite: [a, b]\ndescription: D\n")
    path = child(folder, "extends: ./base.yaml\ncite: [c]\ndescription: null\narchitecture: {conv1d: false}\n")
    spec = load_spec(path).spec.model_dump()
    assert spec["architecture"]["conv1d"] is False
    assert spec["architecture"]["width"] == 8
    assert (spec["cite"], spec["description"], spec["title"]) == (["c"], None, "Title of base")
    with pytest.raises(SpecError, match="the key `name` is missing"):
        load_spec(write(folder / "here/nameless.yaml", "kind: model\nextends: ./base.yaml\n"))


def test_a_built_in_spec_can_be_extended_by_name(folder: Path) -> None:
    assert (
        load_spec(child(folder, "extends: mamba\ntraining: {steps: 20}\n")).spec.model_dump()["training"]["steps"] == 20
    )


def test_an_error_in_what_is_inherited_points_at_the_file_where_it_was_written(folder: Path) -> None:
    write(folder / "here/base.yaml", "title: B\ntraining: {learning_rate: 1e-3, steps: 0}\n")
    path = child(folder, "extends: [mamba, ./base.yaml]\narchitecture: {widht: 3}\n")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value).splitlines() == [
        "base.yaml:2:40: training.steps: the number 0 — at least 1 would be right",
        "child.yaml:4:16: architecture.widht: unknown key — did you mean `width`?",
    ]


def test_a_diamond_is_fine_and_keeps_what_one_branch_sets(folder: Path) -> None:
    write(folder / "here/top.yaml", MODEL.format(name="top"))
    child(folder, "extends: ./top.yaml\ntraining: {steps: 20}\n", "left")
    child(folder, "extends: ./top.yaml\ntraining: {batch_size: 7}\n", "right")
    spec = load_spec(child(folder, "extends: [./left.yaml, ./right.yaml]\n")).spec.model_dump()
    assert (spec["training"]["steps"], spec["training"]["batch_size"]) == (20, 7)


def test_of_two_parents_the_later_one_wins(folder: Path) -> None:
    child(folder, "extends: mamba\ntraining: {steps: 20}\n", "left")
    child(folder, "extends: mamba\ntraining: {steps: 30}\n", "right")
    path = child(folder, "extends: [./left.yaml, ./right.yaml]\n")
    assert load_spec(path).spec.model_dump()["training"]["steps"] == 30


@pytest.mark.parametrize("links", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_a_cycle_is_an_error_that_shows_the_chain(folder: Path, links: list[str]) -> None:
    for link, following in zip(links, [*links[1:], links[0]], strict=True):
        child(folder, f"extends: ./{following}.yaml\n", link)
    with pytest.raises(SpecError) as caught:
        load_spec(folder / "here/a.yaml")
    chain = " → ".join(f"{link}.yaml" for link in [*links, links[0]])
    assert f"{links[-1]}.yaml:3:10: extends: a cycle: {chain}" in str(caught.value)


def test_an_endless_chain_is_an_error_and_no_recursion(folder: Path) -> None:
    for link in range(50):
        child(folder, f"extends: ./c{link + 1}.yaml\n", f"c{link}")
    with pytest.raises(SpecError, match="more than 32 specs that extend each other"):
        load_spec(folder / "here/c0.yaml")


def test_a_cycle_through_a_symlink_is_seen(folder: Path) -> None:
    child(folder, "extends: ./b.yaml\n", "a")
    (folder / "here/b.yaml").symlink_to(folder / "here/a.yaml")
    with pytest.raises(SpecError, match="a cycle"):
        load_spec(folder / "here/a.yaml")


@pytest.mark.parametrize(
    ("extends", "says"),
    [
        ("mambo", "child.yaml:3:10: extends: no model is called `mambo` — did you mean `mamba`?"),
        ("[mamba, mambo]", "child.yaml:3:18: extends[1]: no model is called `mambo`"),
        ("./none.yaml", "child.yaml:3:10: extends: there is no file `none.yaml`"),
        ("3", "child.yaml:3:10: extends: the number 3 — a name or path"),
        ("[]", "child.yaml:3:10: extends: an empty list — a name or path"),
        ("{a: b}", "child.yaml:3:10: extends: a mapping — a name or path"),
        ("./task.yaml", "task.yaml:1:7: kind: the text `task` — `model`, as in child.yaml that extends it"),
    ],
)
def test_a_wrong_extends_is_an_error_at_its_place(folder: Path, extends: str, says: str) -> None:
    write(folder / "here/task.yaml", "kind: task\nname: task\n")
    with pytest.raises(SpecError) as caught:
        load_spec(child(folder, f"extends: {extends}\n"))
    assert says in str(caught.value)


def test_paths_that_are_inherited_still_mean_the_same_file(folder: Path) -> None:
    module = "adapter: torch_module\nmodule: mine.py:build\nsites: {embed: e, blocks: b.*}\n"
    recipe = "title: T\ntraining: {learning_rate: 1e-3, steps: 10}\n"
    write(folder / "there/base.yaml", "kind: model\nname: base\n" + module + recipe)
    located = load_spec(child(folder, "extends: ../there/base.yaml\n"))
    file = located.spec.model_dump()["module"].removesuffix(":build")
    assert (located.base / file).resolve() == (folder / "there/mine.py").resolve()
