"""Arguments that several verbs share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..runner.plan import Plan

__all__ = [
    "Device",
    "ModelFilter",
    "Out",
    "ProtocolFilter",
    "SeedFilter",
    "Suite",
    "TaskFilter",
    "TrustRemoteCode",
    "folder_of",
    "folder_path",
    "planned",
]

Suite = Annotated[
    str | None,
    typer.Argument(
        metavar="SUITE",
        help="A built-in suite, or the path of its YAML file, or of a model's that names its suite.",
        show_default=False,
    ),
]
ModelFilter = Annotated[
    list[str] | None,
    typer.Option("--model", metavar="M", help="Only this model (a name, or the path of a YAML file). Can be repeated."),
]
TaskFilter = Annotated[
    list[str] | None,
    typer.Option("--task", metavar="T", help="Only this task (a name, or the path of a YAML file). Can be repeated."),
]
SeedFilter = Annotated[list[int] | None, typer.Option("--seed", metavar="N", help="Only this seed. Can be repeated.")]
ProtocolFilter = Annotated[
    list[str] | None,
    typer.Option("--protocol", metavar="P", help="Only this protocol (a name, or a path). Can be repeated."),
]


TrustRemoteCode = Annotated[
    bool,
    typer.Option("--trust-remote-code", help="Run the Python code that a checkpoint brings. Read it first."),
]


def folder_path(text: str) -> Path:
    """The path of a folder; an empty text, such as an unset variable gives, is no path."""
    if not text:
        raise typer.BadParameter("the path is empty; write . for the current folder")
    return Path(text)


Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="The run folder.", show_default="runs/<suite>", parser=folder_path),
]


class Device(StrEnum):
    """Where models compute."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


def planned(
    suite: str | None,
    models: list[str] | None,
    tasks: list[str] | None,
    seeds: list[int] | None,
    protocols: list[str] | None,
) -> Plan:
    """The plan of a suite, narrowed by the filters that were given.

    A model's file in the place of the suite stands for the suite that it names, narrowed to this model and those of the
    filter; without a suite, the files of the filter must name one.
    """
    from ..runner.plan import make_plan
    from ..spec.load import resolve_suite, suite_of_model

    if suite is None:
        suite = _suite_of(models or [])
    elif (named := suite_of_model(suite)) is not None:
        suite, models = named, [suite, *(models or [])]
    return make_plan(
        resolve_suite(
            suite, models=models or None, tasks=tasks or None, seeds=seeds or None, protocols=protocols or None
        )
    )


def _suite_of(models: list[str]) -> str:
    """The one suite that the files of models name."""
    from ..spec.load import suite_of_model

    found = {name: suite_of_model(name) for name in models}
    suites = {suite for suite in found.values() if suite is not None}
    if len(suites) == 1:
        return suites.pop()
    given = ": " + ", ".join(f"{name} names {suite or 'none'}" for name, suite in found.items()) if found else ""
    raise typer.BadParameter(f"name a suite, or the file of a model that names one{given}", param_hint="SUITE")


def folder_of(out: Path | None, plan: Plan) -> Path:
    """The run folder: as given, or runs/<suite>."""
    return out if out is not None else Path("runs") / plan.resolved.suite.name
