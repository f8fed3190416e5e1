"""`layerstate report`: the numbers of a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..runner.formats import Format

__all__ = ["report"]


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.", exists=True, file_okay=False)],
    format: Annotated[Format, typer.Option("--format", help="How it is printed.")] = Format.TABLE,
    timings: Annotated[
        bool, typer.Option("--timings", help="What each protocol took, beside the forward passes it needs.")
    ] = False,
) -> None:
    """Print the numbers of a run folder.

    One table a suite that was run into it.
    """
    from ..runner.report import report_text
    from ..runner.timings import timings_text

    text = timings_text if timings else report_text
    typer.echo(text(folder, format, tell=lambda said: typer.echo(said, err=True)), nl=False)
