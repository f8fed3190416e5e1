"""`layerstate claims`: what the numbers of a run folder say of published claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..runner.formats import Format

if TYPE_CHECKING:
    from ..spec.schema import ClaimsSpec

__all__ = ["claims"]


def claims(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.", exists=True, file_okay=False)],
    claims: Annotated[
        list[str] | None,
        typer.Option("--claims", metavar="NAME|FILE", help="Claims to judge.", show_default="all that are built in"),
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="How it is printed.")] = Format.TABLE,
) -> None:
    """Judge claims on what was measured.

    Each with its source, what was expected and measured, the verdict and why. A verdict rests on 95 % intervals:
    one that straddles what is expected leaves the claim inconclusive.
    """
    from ..claims.report import claims_text
    from ..runner.gathered import gather

    specs = _specs(claims)
    suites = gather(folder, lambda text: typer.echo(text, err=True))
    typer.echo(claims_text(specs, suites, folder, format), nl=False)


def _specs(references: list[str] | None) -> list[ClaimsSpec]:
    from ..spec.load import find_spec, validate_deep
    from ..spec.names import builtin_names
    from ..spec.schema import ClaimsSpec

    found = [validate_deep(find_spec("claims", name)).spec for name in references or builtin_names("claims")]
    return [spec for spec in found if isinstance(spec, ClaimsSpec)]
