"""The card of an exported data set: what its tasks are, what each value means, and how to read and make it again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import PurePosixPath
from typing import Any

from ...tasks.base import Task
from ...tasks.described import Origin, StateVariable
from ...tasks.splits import SPLITS
from ...tasks.stored_files import Part, file_name
from ..spec.schema import TaskSpec
from ..spec.source import MEASURING

__all__ = ["MARK", "SPECS", "Described", "card_text", "split_name"]

MARK = "<!-- made by `layerstate data export` -->"
"""The line by which a folder is known to be an export."""

SPECS = "specs"
"""The folder of the task specs in a data set."""


@dataclass(frozen=True)
class Described:
    """A task of a data set with everything that its card says.

    Attributes
    ----------
    spec : TaskSpec
        The task as it was drawn.
    task : Task
        What it was drawn from.
    variables : dict of str to StateVariable
        All state variables in words.
    origin : Origin
        Whose material it is.
    parts : dict of Part to (int, str)
        Number of sequences and digest of each split and length.
    sha256 : str
        The digest of all of them.
    reader : str
        The name of the spec that reads the task from the data set.
    text : str
        The YAML of the spec that draws it.
    """

    spec: TaskSpec
    task: Task
    variables: dict[str, StateVariable]
    origin: Origin
    parts: dict[Part, tuple[int, str]]
    sha256: str
    reader: str
    text: str


def split_name(part: Part) -> str:
    """The split as `datasets` calls it: with the length where there are several."""
    return f"{part.split}_{part.length}" if part.split in MEASURING else part.split


def card_text(hub: Any, tasks: Sequence[Described], options: Sequence[str]) -> str:
    """README.md of a data set.

    Parameters
    ----------
    hub : module
        huggingface_hub.
    tasks : sequence of Described
        In the order of the data set.
    options : sequence of str
        The options of `layerstate data export` that change what is in it.
    """
    names = [each.spec.name for each in tasks]
    licences = sorted({licence for each in tasks for licence in each.origin.licences})
    data = hub.DatasetCardData(
        license=licences[0] if len(licences) == 1 else licences,
        pretty_name=f"layerstate: {', '.join(names)}",
        tags=["layerstate", "state-tracking", "interpretability", "synthetic"],
        configs=[_config(each) for each in tasks],
    )
    specs = [str(PurePosixPath(SPECS, f"{name}.yaml")) for name in names]
    command = shlex.join(["layerstate", "data", "export", *specs, *options, "--to", "copy"])
    parts = [
        f"---\n{data.to_yaml()}\n---\n{MARK}",
        f"# layerstate: {', '.join(each.spec.title for each in tasks)}",
        "Token sequences with one or more *state variables*, labelled at every position: the label at position t is "
        "given by the tokens up to and including t. Made with layerstate "
        f"{version('layerstate')}, which measures where along its depth a sequence model holds such states.",
        _read(tasks),
        *(_task(each) for each in tasks),
        "## Make it again\n\nThe same bytes on any machine, from the specs in this folder:\n\n"
        f"```\npip install 'layerstate[hf]=={version('layerstate')}'\n{command}\n```",
        _splits_text(tasks),
        _citation(tasks),
    ]
    return "\n\n".join(parts) + "\n"


def _config(each: Described) -> dict[str, Any]:
    name = each.spec.name
    files = [{"split": split_name(part), "path": f"{name}/{file_name(part)}"} for part in _ordered(each)]
    return {"config_name": name, "data_files": files}


def _read(tasks: Sequence[Described]) -> str:
    name, reader = tasks[0].spec.name, tasks[0].reader
    return (
        "## Read it\n\n```python\nfrom datasets import load_dataset\n\n"
        f'data = load_dataset("<this folder, or its id on the Hub>", "{name}")\n'
        f'data["evaluate_{tasks[0].spec.lengths.train}"][0]   # tokens and one list for each state variable\n```\n\n'
        "Models are trained and measured on it by a task spec of layerstate, which checks every label and the "
        "digest:\n\n"
        f"```\nlayerstate data digest {SPECS}/{reader}.yaml\n```\n\n"
        f"From the Hub, the spec says `path: USER/NAME` and `revision: <commit>` instead of `path: ..`."
    )


def _task(each: Described) -> str:
    spec = each.spec
    vocabulary = ", ".join(_code(symbol) for symbol in each.task.vocabulary)
    lines = [
        f"## `{spec.name}`: {spec.title}",
        spec.description or "",
        f"Tokens 0 … {len(each.task.vocabulary) - 1}: {vocabulary}.",
        _table(
            ["state variable", "what it is", "values 0, 1, …"],
            [
                [
                    _code(name) + (" (target)" if name == spec.target else ""),
                    variable.meaning,
                    ", ".join(_code(value) for value in variable.values),
                ]
                for name, variable in each.variables.items()
            ],
        ),
        _table(
            ["split", "length", "sequences", "sha256"],
            [
                [_code(split_name(part)), str(part.length), str(each.parts[part][0]), _code(each.parts[part][1])]
                for part in _ordered(each)
            ],
        ),
        f"Digest of all of it, the `sha256` of a task spec: `{each.sha256}`",
        f"Licence: {', '.join(each.origin.licences)}. {each.origin.note}",
        f"The spec that draws it:\n\n```yaml\n{each.text}```",
    ]
    return "\n\n".join(line for line in lines if line)


def _splits_text(tasks: Sequence[Described]) -> str:
    n = tasks[0].parts[Part("train", tasks[0].spec.lengths.train)][0]
    return (
        "## Splits\n\nA sequence's split is a hash of its content, so no sequence of one length is in two splits. "
        "`probe_train`, `probe_test` and `evaluate`, each at every length, are what layerstate measures on. "
        "`validation` is what decides when a training stops. Training data have no end in layerstate: each step draws "
        f"its own. `train` holds {n} of these sequences (option `--train`); a model that is trained on this data set "
        "draws from them with replacement, so it is another training than the generator's."
    )


def _citation(tasks: Sequence[Described]) -> str:
    cited = list(dict.fromkeys(line for each in tasks for line in each.spec.cite))
    sources = "".join(f"\n- {line}" for line in cited)
    return "## Cite\n\nPlease cite layerstate (its CITATION.cff), the digest of what you used" + (
        f", and where the tasks come from:\n{sources}" if cited else "."
    )


def _ordered(each: Described) -> list[Part]:
    """Training data first, evaluation last and by length."""
    return sorted(each.parts, key=lambda part: (SPLITS.index(part.split), part.length))


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    padded = f" {text} " if "`" in text else text
    return f"{fence}{padded}{fence}".replace("|", "\\|")
