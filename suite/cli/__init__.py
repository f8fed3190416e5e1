"""The command `layerstate`: one file a verb, which parses, calls and prints. Heavy imports wait for the verb."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ...tasks.errors import LayerstateError
from . import check, claims, compare, data, leaderboard, listing, plan, report, run, show, validate
from .debug import debugging, set_debugging

__all__ = ["app", "main"]


class _Group(TyperGroup):
    """Turns a user's mistakes into a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; with --debug, tracebacks stay."""
        try:
            return super().invoke(ctx)
        except LayerstateError as error:
            if debugging():
                raise
            typer.echo(str(error), err=True)
            raise typer.Exit(error.exit_code) from None
        except OSError as error:
            if debugging() or error.errno == errno.EPIPE:  # a reader that has seen enough is no error
                raise
            typer.echo(f"The system refused to read or write: {error}. With --debug, it is shown where.", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            typer.echo("Stopped. What is finished is kept; the same command goes on from there.", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Group,
    name="layerstate",
    help="Where along its depth a sequence model holds the state that a task asks it to track.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help, in half the time
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(on: bool) -> None:
    if on:
        from importlib.metadata import version

        typer.echo(f"layerstate {version('layerstate')}")
        raise typer.Exit


_VersionOption = Annotated[
    bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
]


@app.callback()
def _options(  # pyright: ignore[reportUnusedFunction]
    _version: _VersionOption = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, before or after the verb.")
    ] = False,
) -> None:
    if debug:
        set_debugging()


app.command("list")(listing.list_)
app.command()(show.show)
app.command()(validate.validate)
app.command()(check.check)
app.command()(plan.plan)
app.command()(run.run)
app.command()(report.report)
app.command()(claims.claims)
app.command()(compare.compare)
app.add_typer(leaderboard.app, name="leaderboard")
app.add_typer(data.app, name="data")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with the given arguments, or the process's; ends with SystemExit and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 is no reason to fail
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--debug" in given:
        set_debugging()
    app(args=[argument for argument in given if argument != "--debug"], prog_name="layerstate")
