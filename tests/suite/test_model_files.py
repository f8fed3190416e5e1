"""A model's own file: run by itself on the suite that it names, its mistakes pointed at before anything is trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from layerstate.suite.runner.store import read_suites

MODEL = """\
kind: model
name: mine
title: My own model
adapter: torch_module
module: mine.py:build
sites: {embed: embed, blocks: "layers.*", output: 0}
components: {mixer: {pattern: "layers.*", modes: [zero]}}
training: {learning_rate: 0.01, steps: 12, warmup: 3, evaluate_every: 5, batch_size: 8}
"""


def write(workshop: Any, text: str) -> Path:
    path = workshop.user_model()
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            '"layers.*", output',
            '"layer.*", output',
            "6:31: sites.blocks: no submodule is called 'layer.*'. Did you mean",
        ),
        ("embed: embed", "embed: embd", "6:16: sites.embed: no submodule is called 'embd'. Did you mean embed"),
        ("embed: embed", "embed: head.weight", "6:16: sites.embed: 'head.weight' is a Parameter and no submodule. Did"),
        (
            'blocks: "layers.*"',
            'blocks: ["layers.*", layers.1]',
            "6:31: sites.blocks: the submodule layers.1 is",
        ),
        ("output: 0", "output: 3", "6:51: sites.output: the submodule of the site block.0 returned a tuple (Tensor,"),
        (", output: 0", "", "6:8: sites: the submodule of the site block.0 returned a tuple"),
        ('{pattern: "layers.*"', '{pattern: "layers.*.gru"', "7:31: components.mixer.pattern: no submodule is called"),
        ('{pattern: "layers.*", modes: [zero]}', "layrs.0", "7:21: components.mixer: no submodule is called 'layrs.0'"),
    ],
)
def test_what_does_not_fit_the_module_is_pointed_at_before_any_training(
    workshop: Any, old: str, new: str, said: str
) -> None:
    path = write(workshop, MODEL.replace(old, new))
    done = workshop.layerstate("check", path)
    assert done.exit_code == 1
    assert said in done.stderr
    assert done.stderr.startswith(f"{path}:")
    assert workshop.run("--model", path).exit_code == 3
    (failure,) = workshop.failures()
    assert said in failure["message"]
    assert not workshop.cells()


def test_a_mode_that_there_is_not_is_pointed_at_without_the_module(workshop: Any) -> None:
    done = workshop.layerstate("validate", write(workshop, MODEL.replace("[zero]", "[zero, zeroo]")))
    assert done.exit_code == 1
    assert "mine.yaml:7:57: components.mixer.modes[1]: the text `zeroo` — did you mean `zero`?" in done.stdout


@pytest.mark.parametrize("arguments", [["{path}"], ["--model", "{path}"], ["{path}", "--model", "tiny"]])
def test_a_model_that_names_its_suite_is_run_by_itself(workshop: Any, arguments: list[str]) -> None:
    path = write(workshop, MODEL + "suite: ./suite.yaml\n")
    given = [argument.format(path=path) for argument in arguments]
    planned = workshop.layerstate("plan", *given, "--out", workshop.out)
    assert planned.exit_code == 0, planned.stderr
    done = workshop.layerstate("run", *given, "--out", workshop.out, "--workers", 1)
    assert done.exit_code == 0, done.stderr
    models = {cell["cell"]["model"] for cell in workshop.cells().values()}
    assert models == {"mine", *(["tiny"] if "tiny" in given else [])}
    assert [record.suite["name"] for record in read_suites(workshop.out)] == ["tiny_suite"]


def test_the_suite_of_a_model_changes_neither_what_is_trained_nor_what_is_measured(workshop: Any) -> None:
    assert workshop.run("--model", write(workshop, MODEL)).exit_code == 0
    path = write(workshop, MODEL + "suite: ./suite.yaml\n")
    again = workshop.layerstate("run", path, "--out", workshop.out)
    assert again.exit_code == 0
    assert "Nothing to do" in again.stdout


def test_a_suite_that_is_inherited_starts_at_the_file_that_names_it(workshop: Any) -> None:
    write(workshop, MODEL + "suite: ./suite.yaml\n")
    (workshop.root / "below").mkdir()
    child = workshop.root / "below" / "child.yaml"
    child.write_text("kind: model\nname: child\nextends: ../mine.yaml\n")
    done = workshop.layerstate("plan", child, "--out", workshop.out)
    assert done.exit_code == 0, done.stderr
    assert "child" in done.stdout


def test_a_model_without_a_suite_says_how_to_run_it(workshop: Any) -> None:
    path = write(workshop, MODEL)
    done = workshop.layerstate("run", path, "--out", workshop.out)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"{path}:1:1: the model names no suite — write `suite: standard`")
    assert f"layerstate run standard --model {path}" in done.stderr
    assert not workshop.out.exists()


@pytest.mark.parametrize("verb", ["validate", "run", "plan"])
@pytest.mark.parametrize(
    ("suite", "said"),
    [
        ("standrad", "suite: no suite is called `standrad` — did you mean `standard`?"),
        ("lstm", "suite: `lstm` is a model, a suite was expected"),
        ("./none.yaml", "suite: there is no file"),
        ("./parity8.yaml", "suite: the suite `./parity8.yaml` is wrong: "),
    ],
)
def test_a_suite_that_is_not_there_is_pointed_at(workshop: Any, verb: str, suite: str, said: str) -> None:
    done = workshop.layerstate(verb, write(workshop, MODEL + f"suite: {suite}\n"))
    assert done.exit_code == 1
    assert f"mine.yaml:9:8: {said}" in done.stdout + done.stderr


def test_without_a_suite_the_models_must_name_one(workshop: Any) -> None:
    path = write(workshop, MODEL + "suite: ./suite.yaml\n")
    workshop.spec("other", json.loads((workshop.root / "tiny.yaml").read_text()), name="other", suite="quick")
    for models in (["lstm"], [path, workshop.root / "other.yaml"]):
        done = workshop.layerstate("plan", *(word for model in models for word in ("--model", model)))
        assert done.exit_code == 2
        assert "name a suite, or the file of a model" in " ".join(done.stderr.replace("│", " ").split())
