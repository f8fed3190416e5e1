"""`layerstate list`: what is built in."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

__all__ = ["list_"]


class What(StrEnum):
    """Kinds of specs, as one says them."""

    TASKS = "tasks"
    MODELS = "models"
    PROTOCOLS = "protocols"
    SUITES = "suites"
    CLAIMS = "claims"


def list_(
    what: Annotated[
        What | None, typer.Argument(metavar="[tasks|models|protocols|suites|claims]", help="One kind only.")
    ] = None,
) -> None:
    """List what is built in."""
    from ..spec.headings import headings
    from ..spec.names import KINDS, Kind

    kinds: dict[str, Kind] = {kind if kind == "claims" else f"{kind}s": kind for kind in KINDS}
    for plural in [what] if what else list(What):
        found = headings(kinds[plural.value])
        if found and what is None:
            typer.echo(f"{plural.value}:")
        width = max((len(heading.name) for heading in found), default=0)
        for heading in found:
            typer.echo(f"{'  ' if what is None else ''}{heading.name:<{width}}  {heading.title}")
