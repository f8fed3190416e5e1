"""Where cells are worked on: in this process, or in local processes that can die without taking the run along.

Local processes are started fresh (spawn), each with one compute thread. The parent hands out one cell at a time over a
pipe that only the two of them share, so that a killed worker cannot damage what the others use.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from ...tasks.errors import LayerstateError
from .errors import RunStopped
from .events import CellEnded, Event, Listen
from .interrupt import Interrupt
from .plan import Cell
from .settings import Settings
from .store import CellFailures, Failure, Store, now
from .threads import limit_new_libraries
from .work import Work

__all__ = ["Executor", "InProcess", "LocalProcesses"]

_RETRY_SECONDS = 1.0
_STOP_SECONDS = 30.0


class Executor(Protocol):
    """Works on cells, in an order near to the given one, and tells what happens."""

    def run(self, cells: Iterable[Cell], listen: Listen) -> None:
        """Work on all cells; raises KeyboardInterrupt, or RunStopped if no cell can go on."""
        ...


@dataclass(frozen=True)
class InProcess:
    """One cell after the other, in this process."""

    settings: Settings

    def run(self, cells: Iterable[Cell], listen: Listen) -> None:
        """Work on all cells here; on Ctrl-C the training in progress saves its state first."""
        from .cell import Worker

        interrupt = Interrupt()
        worker = Worker(self.settings, 0, listen, interrupt)
        waiting = deque(map(Work, cells))
        turned_away = 0
        with interrupt.listening(signal.SIGINT, signal.SIGTERM):
            while waiting:
                left = worker.work(waiting.popleft())
                if left is None:
                    turned_away = 0
                    continue
                waiting.append(left)
                turned_away += 1
                if turned_away >= len(waiting):
                    time.sleep(_RETRY_SECONDS)  # all that is left is in the hands of another run, or needs what is


@dataclass(frozen=True)
class LocalProcesses:
    """Several cells at a time, each in a process of its own."""

    settings: Settings
    workers: int

    def run(self, cells: Iterable[Cell], listen: Listen) -> None:
        """Work on all cells; a worker that dies costs its cell, and another one takes its place."""
        with _terminable():
            _Parent(self.settings, self.workers, deque(map(Work, cells)), listen).run()


@dataclass
class _Hand:
    """A worker process as its parent sees it."""

    number: int
    process: BaseProcess
    pipe: Connection
    ready: bool = False
    work: Work | None = None


@dataclass(frozen=True)
class _Ready:
    """A worker can take a cell."""


@dataclass(frozen=True)
class _Later:
    """A worker can do no more for a cell now."""

    left: Work


@dataclass(frozen=True)
class _Stopped:
    """A worker met an error that concerns the run as a whole."""

    message: str


class _Parent:
    """Hands out cells and listens to workers."""

    def __init__(self, settings: Settings, workers: int, waiting: deque[Work], listen: Listen) -> None:
        self._settings = settings
        self._waiting = waiting
        self._listen = listen
        self._later: list[tuple[float, Work]] = []
        self._hands = [self._start(number) for number in range(min(workers, len(waiting)))]

    def run(self) -> None:
        """Until no cell is left; whatever happens, no worker outlives this."""
        try:
            while self._waiting or self._later or any(hand.work for hand in self._hands):
                self._hand_out()
                self._take_in()
        finally:
            self._stop()

    def _start(self, number: int) -> _Hand:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self._settings, number), name=f"layerstate-{number}")
        with _without_ctrl_c():
            process.start()
        theirs.close()
        return _Hand(number, process, ours)

    def _hand_out(self) -> None:
        moment = time.monotonic()
        self._waiting.extend(left for when, left in self._later if when <= moment)
        self._later = [entry for entry in self._later if entry[0] > moment]
        for hand in self._hands:
            if self._waiting and hand.ready and hand.work is None:
                hand.work = self._waiting.popleft()
                try:
                    hand.pipe.send(hand.work)
                except OSError:
                    continue  # it died; the next look at it finds that out

    def _take_in(self) -> None:
        sources = [source for hand in self._hands for source in (hand.pipe, hand.process.sentinel)]
        ready = connection.wait(sources, timeout=0.5)
        for hand in list(self._hands):
            if hand.pipe in ready or hand.process.sentinel in ready:
                alive = self._listen_to(hand)
                if not alive:
                    self._replace(hand)

    def _listen_to(self, hand: _Hand) -> bool:
        """Take what the worker has said; False if it is dead."""
        while True:
            try:
                if not hand.pipe.poll():
                    return hand.process.is_alive()
                said = hand.pipe.recv()
            except (EOFError, OSError):
                return False
            self._heard(hand, said)  # what goes wrong in here says nothing about the worker

    def _heard(self, hand: _Hand, said: Any) -> None:
        if isinstance(said, _Ready):
            hand.ready = True
        elif isinstance(said, _Stopped):
            raise RunStopped(said.message)
        elif isinstance(said, _Later):
            self._later.append((time.monotonic() + _RETRY_SECONDS, said.left))
            hand.work = None
        else:
            if isinstance(said, CellEnded):
                hand.work = None
            self._listen(said)

    def _replace(self, hand: _Hand) -> None:
        """Record what a dead worker's cell came to, and start another worker if there is work for it."""
        hand.process.join()
        hand.pipe.close()
        self._hands.remove(hand)
        how = _ending(hand.process.exitcode)
        if not hand.ready:
            raise RunStopped(f"A worker {how} before it could start. Its own message may stand above; try --workers 1.")
        if hand.work is not None:
            self._record_death(hand.work, hand.number, how)
        if self._waiting or self._later:
            self._hands.append(self._start(hand.number))

    def _record_death(self, work: Work, number: int, how: str) -> None:
        message = (
            f"The process that worked on this cell {how}. The system ends processes when memory runs out: use fewer "
            "--workers then. The next run goes on from the last saved state."
        )
        failures = [*work.failures, Failure(stage="process", message=message, time=now())]
        Store(self._settings.out).write_failures(CellFailures(cell=work.cell.key, failures=failures))
        self._listen(CellEnded(number, work.cell.key, tuple(failures)))

    def _stop(self) -> None:
        """End all workers: the idle at once, those at work after saving their training, the slow ones in the end."""
        for hand in self._hands:
            if hand.work is None:
                hand.process.kill()
            else:
                hand.process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        try:
            for hand in self._hands:
                self._drain(hand, deadline)
        finally:
            for hand in self._hands:
                if hand.process.is_alive():
                    hand.process.kill()
                hand.process.join()
                hand.pipe.close()

    def _drain(self, hand: _Hand, deadline: float) -> None:
        """Wait for a worker to end, reading what it still says so that it never blocks on a full pipe."""
        while hand.process.is_alive() and time.monotonic() < deadline:
            try:
                while hand.pipe.poll():
                    hand.pipe.recv()
            except (EOFError, OSError):
                hand.process.join(max(0.0, deadline - time.monotonic()))
                return
            hand.process.join(0.05)


def _work(pipe: Connection, settings: Settings, number: int) -> None:
    """A worker process: takes cells until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_new_libraries()
    _end_with_parent()
    interrupt = Interrupt()
    with interrupt.listening(signal.SIGTERM):
        try:
            _take_cells(pipe, settings, number, interrupt)
        except KeyboardInterrupt:
            sys.exit(130)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            sys.exit(0)  # the parent is gone


def _take_cells(pipe: Connection, settings: Settings, number: int, interrupt: Interrupt) -> None:
    from .cell import Worker

    worker = Worker(settings, number, _throttled(pipe.send), interrupt)
    pipe.send(_Ready())
    while True:
        work: Work = pipe.recv()
        try:
            left = worker.work(work)
        except LayerstateError as error:
            pipe.send(_Stopped(str(error)))
            return
        if left is not None:
            pipe.send(_Later(left))


def _throttled(send: Callable[[Event], None], every: float = 0.2) -> Listen:
    """Passes on every event but steps, and of those at most one in `every` seconds."""
    from .events import Stepped

    last = 0.0

    def listen(event: Event) -> None:
        nonlocal last
        if isinstance(event, Stepped):
            if time.monotonic() - last < every:
                return
            last = time.monotonic()
        send(event)

    return listen


def _end_with_parent() -> None:
    """Let this process end as soon as its parent does, however the parent ends."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with exit code {code}"


@contextmanager
def _without_ctrl_c() -> Generator[None]:
    """A process started inside never sees Ctrl-C: its parent tells it when to stop."""
    resource_tracker.ensure_running()  # started by the first process otherwise, and it unblocks what is blocked here
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _terminable() -> Generator[None]:
    """SIGTERM inside is as Ctrl-C, so that workers are not left behind."""
    interrupt = Interrupt()
    with interrupt.listening(signal.SIGTERM):
        yield
