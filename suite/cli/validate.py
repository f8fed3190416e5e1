"""`layerstate validate`: whether specs are right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["validate"]


def validate(
    paths: Annotated[list[str], typer.Argument(metavar="PATH…", help="YAML files, or folders of them.")],
) -> None:
    """Check specs, one line an error.

    Exit code 1 if there is any.
    """
    from ...tasks.errors import LayerstateError

    wrong = 0
    files = [file for path in paths for file in _files(path)]
    for file in files:
        try:
            what = _checked(file)
        except LayerstateError as error:
            wrong += 1
            typer.echo(str(error))
        else:
            typer.echo(f"{file}: {what} is right")
    if wrong:
        typer.echo(f"{wrong} of {len(files)} {'spec is' if len(files) == 1 else 'specs are'} wrong", err=True)
        raise typer.Exit(1)


def _files(path: str) -> list[str]:
    if not path:
        raise typer.BadParameter("the path is empty; write . for the current folder")
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    found = sorted(str(file) for suffix in ("yaml", "yml") for file in folder.rglob(f"*.{suffix}"))
    if not found:
        raise typer.BadParameter(f"the folder {path} holds no YAML file")
    return found


def _checked(path: str) -> str:
    """The kind and name of the spec, after every check that there is for it."""
    from ..runner.plan import make_plan
    from ..spec.load import load_spec, resolve_suite, validate_deep

    located = load_spec(path)
    if located.spec.kind == "suite":
        make_plan(resolve_suite(path if "/" in path else f"./{path}"))
    else:
        validate_deep(located)
    return f"{located.spec.kind} {located.name}"
