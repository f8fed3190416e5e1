"""`layerstate check`: whether a model can be read and edited as the protocols need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .options import TrustRemoteCode

if TYPE_CHECKING:
    from ...adapters import CheckResult

__all__ = ["check"]


def check(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The path of a model's YAML file, or a built-in name.")],
    task: Annotated[str, typer.Option("--task", metavar="T", help="The task whose tokens it is given.")] = "parity",
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Check that a model can be measured.

    Reads and edits it at every site, and looks whether anything else changes; exit code 1 if a check fails.
    """
    from ..runner.threads import limit_new_libraries
    from ..spec.load import find_spec, validate_deep

    limit_new_libraries()
    model_spec, task_spec = validate_deep(find_spec("model", model)), validate_deep(find_spec("task", task))
    from ..runner.conformance import check_model

    results = check_model(model_spec, task_spec, trust_remote_code=trust_remote_code)
    _print(results)
    failed = [result for result in results if not result.passed]
    if failed:
        typer.echo(f"{model_spec.name} does not conform: {len(failed)} of {len(results)} checks failed.", err=True)
        raise typer.Exit(1)
    typer.echo(f"{model_spec.name} conforms: {len(results)} checks passed.")


def _print(results: list[CheckResult]) -> None:
    from ..runner.tables import aligned

    def size(value: float | None) -> str:
        return "–" if value is None else f"{value:.2g}"

    rows = [
        [
            result.name,
            "passed" if result.passed else "FAILED",
            result.site,
            size(result.difference),
            size(result.limit),
            "" if result.passed else result.message,
        ]
        for result in results
    ]
    typer.echo(aligned(["check", "result", "where", "difference", "limit", ""], rows))
