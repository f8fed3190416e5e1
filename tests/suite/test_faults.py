"""Crashes at any moment: a killed run, a killed worker, Ctrl-C, a parent that dies. Finished work is kept."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from layerstate.suite.cli import main
from layerstate.suite.runner import executors
from layerstate.suite.runner.events import Told
from layerstate.suite.runner.executors import LocalProcesses
from layerstate.suite.runner.pending import find_pending
from layerstate.suite.runner.run import Summary, run
from layerstate.suite.runner.settings import Settings
from layerstate.suite.runner.store import Store

PATIENCE = 120.0

# Children of a fork server have torch loaded already, and no threads of pytest in them: they start in milliseconds.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["layerstate.suite.runner.cell", "torch._dynamo"])  # the latter by the first optimiser


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
    """Two cells with two protocols each."""
    workshop.protocol()
    workshop.suite(seeds=[0, 1], protocols=["behaviour", "./mine_protocol.yaml"])
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
        process = a_run(several)
        until(lambda m=moment, p=process: m() or not p.is_alive(), "the moment to kill")
        time.sleep(rng.random() * 0.1)
        kept = several.results()
        process.kill()
        process.join()
        assert all(several.results()[identity] == result for identity, result in kept.items())  # nothing is lost
    assert finished(several).failed == ()
    assert (several.results(), several.cells()) == expected
    assert not list(several.out.rglob("*.corrupt-*"))
    assert not list(several.out.glob("cells/*/.tmp-*"))


def test_killed_while_training_goes_on_from_the_saved_state(several: Any) -> None:
    several.suite(seeds=[0])
    several.model(training={"steps": 100})
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
    assert 1 < steps[0] <= 100
    assert (several.results(), several.cells()) == expected


def test_two_runs_at_once_into_one_folder_do_the_work_once(several: Any) -> None:
    expected = undisturbed(several)
    first, second = a_run(several), a_run(several)
    first.join(PATIENCE)
    second.join(PATIENCE)
    assert (first.exitcode, second.exitcode) == (0, 0)
    assert (several.results(), several.cells()) == expected
    assert finished(several).worked_on == 0


def test_an_error_in_what_listens_is_not_taken_for_the_death_of_a_worker(workshop: Any) -> None:
    def closed(_event: object) -> None:
        raise BrokenPipeError

    ours, theirs = multiprocessing.Pipe()
    hand = executors._Hand(0, SimpleNamespace(is_alive=lambda: True), ours)  # pyright: ignore
    parent = executors._Parent(Settings(workshop.out), 0, deque(), closed)
    theirs.send(Told("something"))
    with pytest.raises(BrokenPipeError):
        parent._listen_to(hand)


def test_a_killed_worker_costs_its_cell_and_the_others_are_those_of_one_process(several: Any) -> None:
    flag = several.root / "killed"
    several.protocol(
        "import os, pathlib, signal\n"
        f"    flag = pathlib.Path({str(flag)!r})\n"
        "    if cell.seed == 0 and not flag.exists():\n"
        "        flag.touch()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)"
    )
    flag.touch()
    results, cells = undisturbed(several)
    flag.unlink()
    done = several.run("--workers", 2)
    assert done.exit_code == 3
    assert "was ended by SIGKILL" in done.stderr
    assert "fewer --workers" in done.stderr
    (failure,) = several.failures()
    assert failure["stage"] == "process"
    assert several.cells() == cells
    assert len(several.results()) == len(results) - 1
    assert all(results[identity] == result for identity, result in several.results().items())
    assert finished(several).failed == ()
    assert several.results() == results
    assert several.failures() == []


@pytest.fixture
def slow(workshop: Any) -> Any:
    """Two trainings that never end, and leave a file beside the suite once they have begun."""
    code = (workshop.user_model().parent / "mine.py").read_text()
    mark = f"open({str(workshop.root)!r} + f'/begun-{{os.getpid()}}', 'w').close()"
    begins = f"        if self.training:\n            {mark}\n"
    forward = "        hidden = self.embed(tokens)\n"
    code = "import os\n" + code.replace(forward, begins + forward)
    workshop.user_model(code, training={"steps": 1_000_000, "stop_at_accuracy": None})
    workshop.suite(models=["./mine.yaml"], seeds=[0, 1])
    return workshop


def begun(workshop: Any) -> list[int]:
    """The processes in which a training has begun."""
    return [int(path.name.partition("-")[2]) for path in workshop.root.glob("begun-*")]


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
def test_a_training_that_is_stopped_saves_its_state_and_ends_with_130(slow: Any, signal_: signal.Signals) -> None:
    command = ["run", str(slow.root / "suite.yaml"), "--out", str(slow.out), "--workers", "1"]
    process = FORKED.Process(target=main, args=(command,))
    process.start()
    until(lambda: begun(slow), "a training")
    os.kill(process.pid, signal_)
    process.join(PATIENCE)
    assert process.exitcode == 130
    assert len(list(slow.out.glob("cells/*/state.safetensors"))) == 1
    assert slow.failures() == []


def test_ctrl_c_reaches_the_workers_through_their_parent(slow: Any) -> None:
    command = ["run", slow.root / "suite.yaml", "--out", slow.out, "--workers", 2]
    process = slow.start(*command, start_new_session=True)
    try:
        until(lambda: len(begun(slow)) == 2, "both trainings")
        os.killpg(process.pid, signal.SIGINT)  # to the whole group, as a terminal does
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Stopped" in errors
    assert "Traceback" not in errors
    assert len(list(slow.out.glob("cells/*/state.safetensors"))) == 2
    assert not any(psutil.pid_exists(worker) for worker in begun(slow))
    assert slow.failures() == []


def test_workers_end_when_their_parent_is_killed(slow: Any) -> None:
    Store(slow.out).prepare()
    executor = LocalProcesses(Settings(slow.out), 1)
    parent = FORKED.Process(target=executor.run, args=(slow.plan().cells, id))
    parent.start()
    until(lambda: begun(slow), "a training")
    (worker,) = begun(slow)
    assert worker != parent.pid
    parent.kill()
    parent.join()
    until(lambda: not psutil.pid_exists(worker), "the worker's end")
