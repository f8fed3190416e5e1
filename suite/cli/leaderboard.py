"""`layerstate leaderboard`: the static site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import folder_path

__all__ = ["app"]

app = typer.Typer(help="Build the static site.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:  # pyright: ignore[reportUnusedFunction]
    """Build the static site."""


@app.command()
def build(
    sources: Annotated[
        list[Path], typer.Argument(metavar="SOURCES…", help="Run folders.", exists=True, file_okay=False)
    ],
    out: Annotated[Path, typer.Option("--out", metavar="SITE_DIR", help="Where the site goes.", parser=folder_path)],
) -> None:
    """Build the site from the results in run folders; prints the path of its first page."""
    from ...leaderboard import build_site

    typer.echo(f"The site is at {build_site(sources, out)}")
