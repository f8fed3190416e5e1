"""Crashes at any moment: a killed run, a killed worker, Ctrl-C, a parent that dies. Finished work stays, nothing is mixed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from layerstate.suite.runner.pending import find_pending
from layerstate.suite.runner.run import Summary, run
from layerstate.suite.runner.settings import Settings
from layerstate.suite.runner.store import Store

PATIENCE = 120.0

# Children of a fork server have torch loaded already, and no threads of pytest in them: they start in milliseconds.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["layerstate.suite.runner.cell", "sklearn.linear_model"])


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


def a_run(workshop: Any) -> Any:
    """A run in a process that can be killed; it saves the state of its training all the time."""
    plan, store = workshop.plan(), Store(workshop.out)
    store.prepare()
    arguments = (plan, find_pending(plan, store), store, Settings(workshop.out, save_every=0.0))
    process = FORKED.Process(target=run, args=arguments, kwargs={"workers": 1, "listen": id})
    process.start()
    return process


def finished(workshop: Any) -> Summary:
    """A run in this process, to the end."""
    plan, store = workshop.plan(), Store(workshop.out)
    store.prepare()
    return run(plan, find_pending(plan, store), store, Settings(workshop.out), workers=1, listen=lambda _event: None)


def undisturbed(workshop: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The results and cells of a run that nothing disturbs, in a folder of its own."""
    out = workshop.out
    workshop.out = workshop.root / "undisturbed"
    assert finished(workshop).failed == ()
    expected = workshop.results(), workshop.cells()
    workshop.out = out
    return expected


@pytest.fixture
def several(workshop: Any) -> Any:
    workshop.model(training={"steps": 25})
    workshop.suite(seeds=[0, 1], protocols=["behaviour", "probe_profile"])
    return workshop


def test_killed_at_many_moments_and_resumed_gives_what_an_undisturbed_run_gives(several: Any) -> None:
    expected = undisturbed(several)
    cells, results = several.out / "cells", several.out / "results"
    moments: list[Callable[[], Any]] = [
        lambda: list(cells.glob("*/state.safetensors")),
        lambda: list(cells.glob("*/weights.safetensors")),
        lambda: list(cells.glob("*/cell.json")),
        lambda: list(results.glob("*.json")),
        lambda: len(list(results.glob("*.json"))) >= 2,
    ]
    rng = random.Random(0)
    for moment in moments:
        for _ in range(2):
            process = a_run(several)
            until(lambda m=moment, p=process: m() or not p.is_alive(), "the moment to kill")
            time.sleep(rng.random() * 0.3)
            kept = several.results()
            process.kill()
            process.join()
            assert kept.items() <= several.results().items()  # nothing that was finished is lost
    assert finished(several).failed == ()
    assert (several.results(), several.cells()) == expected
    assert not list(several.out.rglob("*.corrupt-*"))
    assert not list(several.out.glob("cells/*/.tmp-*"))


def test_killed_while_training_goes_on_from_the_saved_state(several: Any) -> None:
    several.suite(seeds=[0])
    several.model(training={"steps": 400})
    expected = undisturbed(several)
    process = a_run(several)
    until(lambda: list(several.out.glob("cells/*/state.safetensors")), "a saved state")
    process.kill()
    process.join()
    assert not several.cells()
    plan, store = several.plan(), Store(several.out)
    steps: list[int] = []

    def hear(event: Any) -> None:
        if type(event).__name__ == "Stepped":
            steps.append(event.step)

    run(plan, find_pending(plan, store), store, Settings(several.out), workers=1, listen=hear)
    assert 1 < steps[0] <= 400
    assert (several.results(), several.cells()) == expected


def test_two_runs_at_once_into_one_folder_do_the_work_once(several: Any) -> None:
    expected = undisturbed(several)
    first, second = a_run(several), a_run(several)
    first.join(PATIENCE)
    second.join(PATIENCE)
    assert (first.exitcode, second.exitcode) == (0, 0)
    assert (several.results(), several.cells()) == expected
    assert finished(several).worked_on == 0


def test_workers_give_the_numbers_of_one_process(several: Any) -> None:
    expected = undisturbed(several)
    done = several.run("--workers", 2)
    assert done.exit_code == 0, done.stderr
    assert "2/2 cells" in done.stderr
    assert (several.results(), several.cells()) == expected


def slow(workshop: Any) -> None:
    """Trainings that take long enough to be disturbed."""
    workshop.model(training={"steps": 100_000, "stop_at_accuracy": None})
    workshop.suite(seeds=[0, 1])


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The children that compute; not multiprocessing's resource tracker."""
    return [child for child in psutil.Process(process.pid).children() if "spawn_main" in " ".join(child.cmdline())]


def training(workshop: Any) -> list[Path]:
    """Cells that a worker holds at the moment."""
    return list(workshop.out.glob("cells/*/lock"))


def test_a_killed_worker_costs_its_cell_and_no_other(workshop: Any) -> None:
    body = (
        "import os, pathlib, signal\n"
        f"    flag = pathlib.Path({str(workshop.root / 'killed')!r})\n"
        "    if cell.seed == 0 and not flag.exists():\n"
        "        flag.touch()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)"
    )
    workshop.protocol(body)
    workshop.suite(seeds=[0, 1, 2], protocols=["behaviour", "./mine_protocol.yaml"])
    done = workshop.run("--workers", 2)
    assert done.exit_code == 3
    assert "was ended by SIGKILL" in done.stderr
    assert "fewer --workers" in done.stderr
    (failure,) = workshop.failures()
    assert failure["stage"] == "process"
    seeds = {result["cell"]["seed"] for result in workshop.results().values() if result["protocol"] == "mine"}
    assert seeds == {1, 2}
    assert {result["cell"]["seed"] for result in workshop.results().values()} == {0, 1, 2}
    assert workshop.run().exit_code == 0
    assert workshop.failures() == []


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_saves_the_training_and_ends_with_130(workshop: Any, workers: int) -> None:
    slow(workshop)
    process = workshop.start(
        "run", workshop.root / "suite.yaml", "--out", workshop.out, "--workers", workers, start_new_session=True
    )
    try:
        until(lambda: len(training(workshop)) >= workers, "a training")
        children = workers_of(process) if workers > 1 else []
        time.sleep(1.0)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Stopped" in errors
    assert "Traceback" not in errors
    assert len(list(workshop.out.glob("cells/*/state.safetensors"))) == workers
    assert not any(child.is_running() for child in children)
    assert workshop.failures() == []


def test_workers_end_when_their_parent_is_killed(workshop: Any) -> None:
    slow(workshop)
    process = workshop.start("run", workshop.root / "suite.yaml", "--out", workshop.out, "--workers", 2)
    try:
        until(lambda: len(training(workshop)) == 2, "both workers")
        children = workers_of(process)
        assert len(children) == 2
        process.kill()
        process.communicate()
        gone, alive = psutil.wait_procs(children, timeout=PATIENCE)
    finally:
        process.kill()
    assert len(gone) == 2
    assert alive == []


def test_sigterm_ends_a_run_as_ctrl_c_does(workshop: Any) -> None:
    slow(workshop)
    process = workshop.start("run", workshop.root / "suite.yaml", "--out", workshop.out, "--workers", 1)
    try:
        until(lambda: training(workshop), "a training")
        time.sleep(1.0)
        process.terminate()
        process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130
    assert len(list(workshop.out.glob("cells/*/state.safetensors"))) == 1
