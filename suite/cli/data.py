"""`layerstate data`: the data of tasks."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["app"]

app = typer.Typer(help="Look at the data of tasks.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:  # pyright: ignore[reportUnusedFunction]
    """Look at the data of tasks."""


@app.command()
def digest(
    tasks: Annotated[list[str], typer.Argument(metavar="TASK…", help="Built-in tasks, or paths of YAML files.")],
) -> None:
    """Print the digest of each task's measuring data; equal digests are equal bytes, on any machine."""
    from ..runner.digests import measuring_digests
    from ..runner.tables import aligned
    from ..spec.load import find_spec, validate_deep

    rows = [
        [located.name, split, str(length), str(n), value]
        for located in [validate_deep(find_spec("task", task)) for task in tasks]
        for split, length, n, value in measuring_digests(located)
    ]
    typer.echo(aligned(["task", "split", "length", "n", "sha256"], rows))


@app.command()
def download(
    tasks: Annotated[list[str], typer.Argument(metavar="TASK…", help="Built-in tasks, or paths of YAML files.")],
) -> None:
    """Fetch the data sets that tasks read, once, and print what they hold.

    Put the sha256 into the task's params to pin it.
    """
    from ..runner.digests import read_source
    from ..runner.tables import aligned
    from ..spec.load import find_spec, validate_deep

    rows: list[list[str]] = []
    for located in [validate_deep(find_spec("task", task)) for task in tasks]:
        source = read_source(located)
        if source is None:
            typer.echo(f"{located.name} is made by its generator: there is nothing to download", err=True)
        else:
            counts = [source.sequences, source.tokens, source.left_out]
            rows.append([located.name, *(str(count) for count in counts), source.sha256])
    if rows:
        typer.echo(aligned(["task", "sequences", "tokens", "left out", "sha256"], rows))
