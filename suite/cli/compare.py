"""`layerstate compare`: models side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..runner.formats import Format

__all__ = ["compare"]


def compare(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.", exists=True, file_okay=False)],
    models: Annotated[
        str,
        typer.Option("--models", metavar="A,B", help="Names of two models or more; the first is compared with each."),
    ],
    format: Annotated[Format, typer.Option("--format", help="How it is printed.")] = Format.TABLE,
) -> None:
    """Set models side by side, their differences paired by seed.

    Intervals cover seeds and sequences where there are several seeds; p is that of the exact sign-flip test over them.
    """
    from ..runner.compare import compare_text
    from ..runner.gathered import gather

    names = [name.strip() for name in models.split(",")]
    if len(names) < 2 or len(set(names)) < len(names) or not all(names):
        raise typer.BadParameter(f"{models!r} — two different names with a comma between", param_hint="--models")
    suites = gather(folder, lambda text: typer.echo(text, err=True))
    typer.echo(compare_text(suites, names, folder, format), nl=False)
