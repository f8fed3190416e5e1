"""`layerstate run`: complete a suite in a run folder."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from .debug import debugging
from .options import (
    Device,
    ModelFilter,
    Out,
    ProtocolFilter,
    SeedFilter,
    Suite,
    TaskFilter,
    TrustRemoteCode,
    folder_of,
    planned,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ..runner.pending import Pending, Waiting
    from ..runner.plan import Plan
    from ..runner.run import Summary
    from ..runner.settings import Settings
    from ..runner.store import Store

__all__ = ["run"]


def run(
    suite: Suite = None,
    model: ModelFilter = None,
    task: TaskFilter = None,
    seed: SeedFilter = None,
    protocol: ProtocolFilter = None,
    out: Out = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, metavar="N", help="Processes; numbers do not depend on it.", show_default="one a core"
        ),
    ] = None,
    device: Annotated[Device, typer.Option("--device", help="Where models compute.")] = Device.AUTO,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Train and measure what is missing.

    Finished work is kept: the same command goes on where it was stopped, and then has nothing to do. Exit code 3 if
    a cell failed; the others are complete then.
    """
    from ..runner.pending import find_pending, find_waiting
    from ..runner.settings import Settings
    from ..runner.store import Store

    the_plan = planned(suite, model, task, seed, protocol)
    folder = folder_of(out, the_plan)
    store = Store(folder, lambda text: typer.echo(text, err=True))
    store.prepare()
    pending, waiting = find_pending(the_plan, store), find_waiting(the_plan, store)
    settings = Settings(store.out, device.value, debugging(), trust_remote_code=trust_remote_code)
    summary = _run(the_plan, store, pending, workers, settings)
    _print_end(the_plan, folder, summary, waiting)
    if summary.failed:
        raise typer.Exit(3)


def _run(plan: Plan, store: Store, pending: list[Pending], workers: int | None, settings: Settings) -> Summary:
    from ..runner.progress import shown
    from ..runner.run import default_workers, run
    from ..runner.threads import limit_new_libraries

    if not pending:
        return run(plan, pending, store, settings, workers=1, listen=lambda _event: None)
    limit_new_libraries()
    if settings.device == "cuda":
        _expect_cuda()
    number = min(workers or default_workers(len(pending)), len(pending))
    with shown(len(pending), sys.stderr) as listen:
        return run(plan, pending, store, settings, workers=number, listen=listen)


def _expect_cuda() -> None:
    import torch

    if not torch.cuda.is_available():
        raise typer.BadParameter("torch finds no CUDA device here; use --device cpu", param_hint="--device")


def _print_end(plan: Plan, folder: Path, summary: Summary, waiting: list[Waiting]) -> None:
    from ..runner.pending import waiting_lines
    from ..runner.report import Format, report_text

    if summary.worked_on:
        typer.echo("")
    elif waiting:
        typer.echo(f"Nothing to do in {folder}, apart from what waits for other cells.\n")
    else:
        typer.echo(f"Nothing to do: all {len(plan.cells)} cells are complete in {folder}.\n")
    cells = {cell.identity for cell in plan.cells}
    typer.echo(report_text(folder, Format.TABLE, only=cells))
    for line in waiting_lines(waiting):
        typer.echo(line)
    if summary.failed:
        typer.echo(f"{len(summary.failed)} of {len(plan.cells)} cells failed; the others are complete:", err=True)
        for failures in summary.failed:
            for failure in failures.failures:
                cell = failures.cell
                what = failure.protocol or failure.stage
                typer.echo(f"  {cell.model} · {cell.task} · seed {cell.seed} ({what}): {failure.message}", err=True)
        typer.echo("The same command tries them again.", err=True)
    given = shlex.quote(str(folder))
    typer.echo(f"Next:  layerstate report {given}\n       layerstate leaderboard build {given} --out site")
