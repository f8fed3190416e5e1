"""`layerstate claims`: what the numbers of a run folder say of published claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..runner.formats import Format

if TYPE_CHECKING:
    from ..runner.gathered import Gathered
    from ..spec.load import Located
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
    from ...tasks.errors import LayerstateError
    from ..claims.current import current
    from ..claims.report import claims_text
    from ..runner.gathered import gather
    from ..spec.load import builtin_names, find_spec, validate_deep

    found = [find_spec("claims", name) for name in claims or builtin_names("claims")]
    try:
        suites = gather(folder, _tell)
    except LayerstateError:
        # What is wrong with the claims comes before a folder that holds nothing.
        for located in found:
            validate_deep(located)
        raise
    specs = _checked(found, suites, folder)
    typer.echo(claims_text(specs, current(suites, folder, _tell), folder, format), nl=False)


def _tell(text: str) -> None:
    typer.echo(text, err=True)


def _checked(found: list[Located], suites: list[Gathered], folder: Path) -> list[ClaimsSpec]:
    """The claims, which may also speak of what the folder holds; a suite's path in them is one from here."""
    from ..spec.claimed_names import Measured
    from ..spec.load import is_path, validate_deep
    from ..spec.nodes import shown
    from ..spec.schema import ClaimsSpec

    models = frozenset(name for suite in suites for name in suite.record.models)
    tasks = frozenset(name for suite in suites for name in suite.record.tasks)
    specs: list[ClaimsSpec] = []
    for located in found:
        spec = validate_deep(located, Measured(str(folder), models, tasks)).spec
        if isinstance(spec, ClaimsSpec):
            if is_path(spec.suite):
                spec = spec.model_copy(update={"suite": shown(located.base / spec.suite)})
            specs.append(spec)
    return specs
