"""`layerstate show`: one spec with every default visible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..spec.load import Located

__all__ = ["show"]


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A built-in name, or the path of a YAML file.")],
) -> None:
    """Print a resolved spec, with its identity."""
    from ..spec.load import dump_resolved, validate_deep

    for located in _found(name):
        checked = validate_deep(located)
        typer.echo(f"# {located.path}\n# identity {_identity(checked)}")
        typer.echo(dump_resolved(checked), nl=False)


def _found(name: str) -> list[Located]:
    """The spec at a path, or all specs of that name (a task and a suite may share one)."""
    from ...tasks.errors import SpecError
    from ..spec.load import KINDS, Kind, builtin_names, find_spec, is_path, load_spec
    from ..spec.suggest import did_you_mean, quoted

    if is_path(name):
        return [load_spec(name)]
    kinds: list[Kind] = [kind for kind in KINDS if name in builtin_names(kind)]
    if not kinds:
        every = [known for kind in KINDS for known in builtin_names(kind)]
        raise SpecError(f"nothing is called {quoted(name)} — {did_you_mean(name, every)} (see `layerstate list`)")
    return [find_spec(kind, name) for kind in kinds]


def _identity(located: Located) -> str:
    """What identifies the spec: of a suite that of its record, of others that of what can change a number."""
    from ..runner.plan import make_plan, suite_record
    from ..spec.identity import LENGTH, MEASURES, TRAINS, digest, part
    from ..spec.load import resolve_suite
    from ..spec.schema import SuiteSpec

    if isinstance(located.spec, SuiteSpec):
        return suite_record(make_plan(resolve_suite(str(located.path)))).identity
    return digest([part(located.spec, TRAINS), part(located.spec, MEASURES)], located.spec.kind)[:LENGTH]
