"""Wrong specs: each error names file, line, column and field, what was found and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest
from layerstate.suite.spec.load import load_spec
from layerstate.tasks.errors import SpecError

TASK = """\
kind: task
name: t
title: T
family: parity
structure: prefix_update
target: parity
states: [parity]
lengths: {train: 4, evaluate: [4, 8]}
"""
MODEL = """\
kind: model
name: m
title: M
adapter: reference
architecture: {type: mamba, blocks: 2, width: 8}
training: {learning_rate: 1e-3, steps: 10}
"""
MODULE = """\
kind: model
name: m
title: M
adapter: torch_module
module: m.py:build
sites: {embed: e, blocks: "l.*"}
training: {learning_rate: 1e-3, steps: 10}
"""
SUITE = """\
kind: suite
name: s
title: S
models: [m]
tasks: [t]
seeds: [0]
protocols: [p]
"""


def errors(folder: Path, text: str) -> list[str]:
    path = folder / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    return str(caught.value).replace(str(path), "spec.yaml").splitlines()


@pytest.mark.parametrize("text", [TASK, MODEL, MODULE, SUITE])
def test_the_specs_that_the_errors_are_made_from_are_right(tmp_path: Path, text: str) -> None:
    (tmp_path / "spec.yaml").write_text(text)
    assert load_spec(tmp_path / "spec.yaml").spec.name in "tms"


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        (TASK, "structure", "strcture", "5:1: strcture: unknown key — did you mean `structure`?"),
        (
            TASK,
            "target: parity\n",
            "",
            "1:1: the key `target` is missing — The state variable that models are trained on.",
        ),
        (TASK, "train: 4", "trian: 4", "8:11: lengths.trian: unknown key — did you mean `train`?"),
        (TASK, "train: 4, ", "", "8:1: lengths: the key `train` is missing — The length that models are trained at."),
        (
            TASK,
            "prefix_update",
            "prefix-update",
            "5:12: structure: the text `prefix-update` — did you mean `prefix_update`?",
        ),
        (TASK, "title: T", "title: true", "3:8: title: true — a text would be right; put it in quotes"),
        (TASK, "title: T", "title:", "3:1: title: null (nothing) — a text would be right"),
        (TASK, "title: T", 'title: "a\\nb"', "one line would be right"),
        (TASK, "train: 4", "train: true", "8:18: lengths.train: true — a whole number would be right"),
        (
            TASK,
            "train: 4",
            'train: "4"',
            "8:18: lengths.train: the text `4` — a whole number would be right; write it without",
        ),
        (
            TASK,
            "train: 4",
            "train: 1_000",
            "8:18: lengths.train: the text `1_000` — a whole number would be right; write 1000",
        ),
        (
            TASK,
            "train: 4",
            "train: 4.0",
            "8:18: lengths.train: the number 4.0 — a whole number would be right; write 4",
        ),
        (TASK, "train: 4", "train: 0", "8:18: lengths.train: the number 0 — at least 1 would be right"),
        (TASK, "[4, 8]", "[4, -8]", "8:35: lengths.evaluate[1]: the number -8 — at least 1 would be right"),
        (TASK, "train: 4", "train:4", "8:11: lengths.train:4: unknown key — a colon needs a space after it"),
        (TASK, "[4, 8]", "[]", "8:31: lengths.evaluate: an empty list — at least one entry is needed"),
        (TASK, "[4, 8]", "[8]", "8:31: lengths.evaluate: [8] — the training length 4 must be among them"),
        (TASK, "[4, 8]", "[4, 4]", "8:31: lengths.evaluate: `4` stands twice — each entry once"),
        (
            TASK,
            "[parity]",
            "parity",
            "7:9: states: the text `parity` — a list would be right; put it in square brackets",
        ),
        (TASK, "target: parity", "target: x", "6:9: target: `x` — one of the states ['parity'] would be right"),
        (TASK, "name: t", "name: T", "2:7: name: the text `T` — a name has lower-case letters"),
        (TASK, "name: t", "name: a/b", "2:7: name:"),
        (TASK, "name: t", "name: a:b", "2:7: name:"),
        (TASK, "name: t", "name: a b", "2:7: name:"),
        (TASK, "name: t", "name: tâche", "2:7: name:"),
        (TASK, "name: t", "name: ..", "2:7: name:"),
        (TASK, "name: t", f"name: {'a' * 65}", "2:7: name:"),
        (TASK, "kind: task", "kind: taks", "1:7: kind: the text `taks` — did you mean `task`?"),
        (TASK, "kind: task\n", "", "1:1: the key `kind` is missing — one of `task`, `model`"),
        (MODEL, "reference", "referense", "4:10: adapter: the text `referense` — did you mean `reference`?"),
        (
            MODEL,
            "adapter: reference\n",
            "",
            "1:1: the key `adapter` is missing — `reference`, `torch_module`, `huggingface` or `mamba_ssm`",
        ),
        (MODEL, "type: mamba", "type: mamab", "5:22: architecture.type: `mamab` is unknown — did you mean `mamba`?"),
        (
            MODEL,
            "type: mamba",
            "typ: mamba",
            "5:1: architecture: the key `type` is missing (`typ` is not it) — `transformer`",
        ),
        (MODEL, "blocks: 2", "block: 2", "5:29: architecture.block: unknown key — did you mean `blocks`?"),
        (MODEL, "blocks: 2", "blocks: 2, heads: 3", "5:40: architecture.heads: unknown key — `conv1d`, `conv_kernel`"),
        (MODEL, "width: 8", "width: 8, expand: 1.1", "architecture.expand: an inner width of 8.8 — a whole number"),
        (MODEL, "type: mamba", "type: transformer, heads: 3", "architecture.width: 8 — a multiple of the 3 heads"),
        (
            MODEL,
            "{type: mamba, blocks: 2, width: 8}",
            "mamba",
            "5:15: architecture: the text `mamba` — a mapping would be",
        ),
        (MODEL, "1e-3", "0", "6:27: training.learning_rate: the number 0 — more than 0.0 would be right"),
        (
            MODEL,
            "1e-3",
            '"1e-3"',
            "6:27: training.learning_rate: the text `1e-3` — a number would be right; write it without",
        ),
        (
            MODEL,
            "steps: 10",
            "steps: 10, per_task: {s3: {stesp: 3}}",
            "training.per_task.s3.stesp: unknown key — did you mean",
        ),
        (
            MODEL,
            "steps: 10",
            "steps: 10, per_task: {s3: {steps: null}}",
            "per_task.s3.steps: null (nothing) — leave the key out",
        ),
        (
            MODEL,
            "steps: 10",
            "steps: 10, per_task: {S3: {steps: 3}}",
            "6:55: training.per_task.S3: the text `S3` — a name has",
        ),
        (
            MODEL,
            "steps: 10",
            "steps: 10, curriculum: [{until: 0.5}, {until: 0.2}]",
            "6:56: training.curriculum: stages that end at [0.5, 0.2] — rising shares",
        ),
        (MODULE, 'blocks: "l.*"', "blocks: 3", "6:27: sites.blocks: the number 3 — a text or a list would be right"),
        (MODULE, 'blocks: "l.*"', "blocks: []", "6:27: sites.blocks: an empty list — at least one entry is needed"),
        (
            MODULE,
            "kind: model",
            "components: {a: {patern: x}}\nkind: model",
            "components.a.patern: unknown key — did you mean",
        ),
        (MODULE, "kind: model", "components: {a: 3}\nkind: model", "components.a: the number 3 — a text or a mapping"),
        (SUITE, "seeds: [0]", "seeds: [true]", "6:9: seeds[0]: true — a whole number would be right"),
        (SUITE, "seeds: [0]", "seeds: [2147483648]", "6:9: seeds[0]: the number 2147483648 — less than 2147483648"),
        (SUITE, "models: [m]", "models: []", "4:9: models: an empty list — at least one entry is needed"),
        (SUITE, "models: [m]", "models: [m, m]", "4:9: models: `m` stands twice"),
        (
            SUITE,
            "seeds: [0]",
            "seeds: [0]\ngate: {at_length: trian}",
            "7:19: gate.at_length: the text `trian` — `train` or a",
        ),
        (
            SUITE,
            "seeds: [0]",
            "seeds: [0]\ngate: {at_least: 1.5}",
            "gate.at_least: the number 1.5 — at most 1.0 would be right",
        ),
        (
            SUITE,
            "seeds: [0]",
            "seeds: [0]\noverride: {task: {}}",
            "7:12: override.task: unknown key — did you mean `tasks`?",
        ),
    ],
)
def test_an_error_says_where_what_and_what_would_be_right(
    tmp_path: Path, text: str, old: str, new: str, expected: str
) -> None:
    assert old in text
    found = errors(tmp_path, text.replace(old, new, 1))
    assert len(found) == 1, found
    assert expected in found[0]
    assert found[0].startswith("spec.yaml:")


def test_all_errors_of_a_spec_come_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = TASK.replace("train: 4", "trian: 4").replace("name: t", "name: T").replace("structure", "strcture")
    assert [line.split(": ")[1] for line in errors(tmp_path, text)] == ["name", "strcture", "lengths.trian"]


def test_a_misspelt_key_is_not_also_reported_as_missing(tmp_path: Path) -> None:
    assert len(errors(tmp_path, TASK.replace("family", "familly"))) == 1


def test_no_becomes_a_text_and_1e_4_a_number(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(MODEL.replace("title: M", "title: no").replace("1e-3", "1e-4"))
    spec = load_spec(tmp_path / "spec.yaml").spec
    assert spec.title == "no"
    assert spec.model_dump()["training"]["learning_rate"] == 1e-4
