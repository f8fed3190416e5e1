"""`layerstate data`: the data of tasks."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import folder_path

if TYPE_CHECKING:
    from ..runner.push import Hub
    from ..spec.load import Located

__all__ = ["app"]

app = typer.Typer(help="Look at the data of tasks.", no_args_is_help=True, rich_markup_mode=None)

_Tasks = Annotated[list[str], typer.Argument(metavar="TASK…", help="Built-in tasks, or paths of YAML files.")]


@app.callback()
def _group() -> None:  # pyright: ignore[reportUnusedFunction]
    """Look at the data of tasks."""


@app.command()
def digest(tasks: _Tasks) -> None:
    """Print the digest of each task's measuring data; equal digests are equal bytes, on any machine."""
    from ..runner.digests import measuring_digests
    from ..runner.tables import aligned

    rows = [
        [located.name, split, str(length), str(n), value]
        for located in _found(tasks)
        for split, length, n, value in measuring_digests(located)
    ]
    typer.echo(aligned(["task", "split", "length", "n", "sha256"], rows))


@app.command()
def download(
    tasks: _Tasks,
    again: Annotated[bool, typer.Option("--again", help="Fetch anew what is in the cache, too.")] = False,
) -> None:
    """Fetch the data sets that tasks read, once, and print what they hold.

    A download that was stopped goes on where it was. The caches are those of Hugging Face (HF_HOME, HF_HUB_CACHE,
    HF_DATASETS_CACHE; HF_HUB_OFFLINE is respected). Put the sha256 into the task's params to pin it.
    """
    from ..runner.digests import read_source
    from ..runner.tables import aligned

    rows: list[list[str]] = []
    for located in _found(tasks):
        source = read_source(located, show=True, again=again)
        if source is None:
            typer.echo(f"{located.name} is made by its generator: there is nothing to download", err=True)
        else:
            counts = [source.sequences, source.tokens, source.left_out]
            rows.append([located.name, *(str(count) for count in counts), source.commit or "–", source.sha256])
    if rows:
        typer.echo(aligned(["task", "sequences", "tokens", "left out", "commit", "sha256"], rows))


@app.command()
def export(
    tasks: _Tasks,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="The folder of the data set.", parser=folder_path)
    ] = None,
    train: Annotated[
        int, typer.Option("--train", min=1, max=100_000_000, metavar="N", help="Training sequences of each task.")
    ] = 10_000,
    n: Annotated[
        int | None,
        typer.Option(
            "--n",
            min=1,
            max=100_000_000,
            metavar="N",
            help="Sequences of each measuring split and length.",
            show_default="as the task says",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option("--suite", metavar="SUITE", help="Take lengths and sizes as this suite overrides them."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an export of other content.")] = False,
    push: Annotated[
        str | None,
        typer.Option("--push", metavar="USER/NAME", help="Upload it to the Hugging Face Hub, with your token."),
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="With --push: a new data set is private.")] = False,
) -> None:
    """Write tasks as a data set that `datasets.load_dataset(DIR, TASK)` reads, with a card.

    Every split and length is in it, each sequence labelled at every position. The folder appears when it is whole.
    """
    from ..runner.export import Sizes
    from ..runner.export import export as write
    from ..runner.push import Hub
    from ..runner.tables import aligned

    if to is None and push is None:
        raise typer.BadParameter("one of --to DIR and --push USER/NAME says where it goes", param_hint="--to")
    if private and push is None:
        raise typer.BadParameter("--private belongs to --push USER/NAME", param_hint="--private")
    located = _found(tasks) if suite is None else _of_suite(suite, tasks)
    hub = None if push is None else Hub(push)
    if hub is not None:
        hub.check()
    with _folder(to) as folder:
        outcome, written = write(
            located, folder, Sizes(train, n), force=force, tell=lambda line: typer.echo(line, err=True)
        )
        rows = [[each.name, str(each.sequences), each.sha256] for each in written]
        typer.echo(aligned(["task", "sequences", "sha256"], rows))
        if to is not None:
            said = {"new": "Written to", "same": "Already there, with this content:", "replaced": "Replaced:"}
            typer.echo(f"{said[outcome.value]} {to}")
            typer.echo(f"Read it with layerstate:  layerstate data digest {written[0].reader}")
        if hub is not None:
            _push(hub, folder, force=force, private=private)


def _push(hub: Hub, folder: Path, *, force: bool, private: bool) -> None:
    pushed = hub.push(folder, force=force, private=private)
    typer.echo(f"{'Already there, with this content:' if pushed.same else 'Pushed to'} {pushed.url}")
    typer.echo(f"A task spec reads it with  revision: {pushed.commit}")


@contextmanager
def _folder(to: Path | None) -> Generator[Path]:
    """The folder of an export; one that is gone afterwards where it is only pushed."""
    if to is not None:
        yield to
    else:
        with tempfile.TemporaryDirectory(prefix="layerstate-") as folder:
            yield Path(folder) / "dataset"


def _found(tasks: list[str]) -> list[Located]:
    from ..spec.load import find_spec, validate_deep

    return [validate_deep(find_spec("task", task)) for task in dict.fromkeys(tasks)]


def _of_suite(suite: str, tasks: list[str]) -> list[Located]:
    """The tasks as a suite overrides them, in the order in which they were asked for."""
    from ..spec.load import resolve_suite

    by_name = resolve_suite(suite, tasks=list(dict.fromkeys(tasks))).tasks
    return list(by_name.values())
