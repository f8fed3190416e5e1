"""`layerstate plan`: what would run, what is there already, and about how long the rest takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .options import ModelFilter, Out, ProtocolFilter, SeedFilter, Suite, TaskFilter, folder_of, planned

if TYPE_CHECKING:
    from ..runner.pending import Estimator, Pending, Waiting
    from ..runner.plan import Plan

__all__ = ["plan"]


def plan(
    suite: Suite = None,
    model: ModelFilter = None,
    task: TaskFilter = None,
    seed: SeedFilter = None,
    protocol: ProtocolFilter = None,
    out: Out = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, metavar="N", help="For the estimate.")] = None,
) -> None:
    """Show what is done and what is left.

    Prints the cells of a suite, their measurements, and about how long the rest takes.
    """
    from ..runner.pending import Estimator, find_pending, find_waiting, waiting_lines
    from ..runner.progress import duration
    from ..runner.run import default_workers
    from ..runner.store import Store

    the_plan = planned(suite, model, task, seed, protocol)
    folder = folder_of(out, the_plan)
    store = Store(folder, lambda text: typer.echo(text, err=True), read_only=True)
    pending, waiting = find_pending(the_plan, store), find_waiting(the_plan, store)
    estimator = Estimator.of(store)
    _print_cells(the_plan, pending, waiting, estimator)
    total = sum(len(cell.measurements) for cell in the_plan.cells)
    missing = sum(len(one.missing) for one in pending)
    twins = {twin.identity for one in pending for twin in one.twins}
    typer.echo(
        f"\n{len(the_plan.cells)} cells, {total} measurements: {total - missing - len(waiting)} done in {folder}, "
        f"{missing} to do"
        + (f" in {len(pending)} cells, {sum(not one.trained for one in pending)} of them to train" if pending else "")
        + (f"; up to {len(twins)} more to train without a component" if twins else "")
        + (f"; {len(waiting)} waiting" if waiting else "")
    )
    for line in waiting_lines(waiting):
        typer.echo(line)
    if pending:
        number = workers or default_workers(len(pending))
        left = estimator.remaining(pending, number)
        typer.echo(
            f"time left with {number} worker{'s' * (number > 1)}: "
            + ("unknown (nothing similar is finished yet)" if left is None else f"about {duration(left)}")
        )


def _print_cells(plan: Plan, pending: list[Pending], waiting: list[Waiting], estimator: Estimator) -> None:
    from ..runner.progress import duration
    from ..runner.tables import aligned

    by_cell = {one.cell.identity: one for one in pending}
    waits: dict[str, list[str]] = {}
    for each in waiting:
        waits.setdefault(each.cell.identity, []).append(each.measurement.protocol.name)
    rows: list[list[str]] = []
    for cell in plan.cells:
        one = by_cell.get(cell.identity)
        seconds = None if one is None else estimator.seconds(one)
        held = waits.get(cell.identity, [])
        missing = [] if one is None else [each.protocol.name for each in one.missing]
        done = [each.protocol.name for each in cell.measurements if each.protocol.name not in (*missing, *held)]
        rows.append(
            [
                cell.model.name,
                cell.task.name,
                str(cell.seed),
                cell.identity[:12],
                ("waiting" if held else "done") if one is None else "trained" if one.trained else "to train",
                ", ".join(done) or "–",
                ", ".join([*missing, *(f"{name} (waits)" for name in held)]) or "–",
                "–" if one is None else "unknown" if seconds is None else duration(seconds),
            ]
        )
    typer.echo(aligned(["model", "task", "seed", "cell", "state", "measured", "to measure", "time"], rows))
