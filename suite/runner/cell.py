"""The work on one cell, in whatever process: train it or load it, measure what is missing, and what that needs.

Only one lock is ever held: the cells that a measurement needs are trained, each under its own lock, between two spells
under the lock of the measured cell. So workers never wait for each other in a circle.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from ..spec.results import CellKey
from .attempts import Attempts
from .events import CellEnded, CellStarted, CellWaits, Doing, Listen, Stepped, Told, name_of
from .interrupt import Interrupt
from .making import Made, Maker
from .measuring import Measurer
from .plan import Cell, Measurement
from .related import open_relations
from .settings import Settings
from .store import CellFailures, Failure, Store, now
from .threads import one_thread
from .work import Work

__all__ = ["Worker"]


@dataclass
class _Readiness:
    """Which measurements can be made, now that what they need was trained where it could be.

    Attributes
    ----------
    ready : list of Measurement
        Those that have everything.
    later : list of Measurement
        Those that need a cell which somebody else works on.
    needs : CellKey or None
        Such a cell.
    """

    ready: list[Measurement] = field(default_factory=list[Measurement])
    later: list[Measurement] = field(default_factory=list[Measurement])
    needs: CellKey | None = None


class Worker:
    """Works on cells, one after the other.

    Parameters
    ----------
    settings : Settings
        Of the run.
    number : int
        Which worker this is, for the display.
    listen : callable
        Gets the events.
    interrupt : Interrupt
        Polled by training.
    """

    def __init__(self, settings: Settings, number: int, listen: Listen, interrupt: Interrupt) -> None:
        self._settings = settings
        self._number = number
        self._listen = listen
        self._store = Store(settings.out, self._tell)
        self._maker = Maker(
            settings, self._store, doing=self._doing, stepped=self._stepped, tell=self._tell, interrupt=interrupt
        )

    def work(self, work: Work) -> Work | None:
        """Do what is missing in a cell; gives back what has to be asked for again later, as others hold what it needs.

        What goes wrong in it is recorded in its `failure.json` and told; only what concerns all cells is raised.
        """
        attempts = Attempts(list(work.failures))
        with one_thread(), warnings.catch_warnings():
            # Shared arrays are read-only on purpose, and torch only reads them.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            left = self._work(work, attempts)
        if attempts.tracebacks:
            gc.collect()  # a traceback keeps the activations of its cell alive
        if self._settings.debug:
            for text in attempts.tracebacks:
                self._tell(text)
        if left is None:
            self._listen(CellEnded(self._number, work.cell.key, tuple(attempts.failures)))
        return left

    def _work(self, work: Work, attempts: Attempts) -> Work | None:
        cell = work.cell
        made: Made | None = None
        todo = self._todo(cell)
        if not todo or not all(each.relations for each in todo) or not self._maker.is_trained(cell):
            with self._store.lock(cell.identity) as held:
                if not held:
                    return self._leave(work)
                self._listen(CellStarted(self._number, cell.key))
                todo = self._todo(cell)
                if todo:
                    made = self._made(cell, attempts)
                alone = [each for each in todo if not each.relations]
                if made is not None:
                    self._measure(cell, made, alone, attempts)
                self._write_failures(cell, attempts)
            if todo and made is None:
                return None
        return self._work_related(cell, [each for each in todo if each.relations], made, attempts)

    def _work_related(self, cell: Cell, todo: list[Measurement], made: Made | None, attempts: Attempts) -> Work | None:
        """Measure what needs other cells; no lock is held at the beginning."""
        if not todo:
            return None
        found = self._train_related(todo, attempts)
        if found.later and not found.ready and len(found.later) == len(todo):
            return self._leave(Work(replace(cell, measurements=tuple(todo)), tuple(attempts.failures)), found.needs)
        with self._store.lock(cell.identity) as held:
            if not held:
                left = (*found.ready, *found.later)
                return self._leave(Work(replace(cell, measurements=left), tuple(attempts.failures)))
            ready = [each for each in found.ready if self._store.read_result(each.identity) is None]
            if ready:
                self._listen(CellStarted(self._number, cell.key))
                made = made or self._made(cell, attempts)
                if made is not None:
                    self._measure(cell, made, ready, attempts)
            self._write_failures(cell, attempts)
        if found.later and (made is not None or not ready):
            left = tuple(found.later)
            return self._leave(Work(replace(cell, measurements=left), tuple(attempts.failures)), found.needs)
        return None

    def _leave(self, work: Work, needs: CellKey | None = None) -> Work:
        self._listen(CellWaits(self._number, work.cell.key, needs))
        return work

    def _todo(self, cell: Cell) -> list[Measurement]:
        return [each for each in cell.measurements if self._store.read_result(each.identity) is None]

    def _made(self, cell: Cell, attempts: Attempts) -> Made | None:
        """The trained cell; None, with the reason in `attempts`, if it cannot be had."""
        with attempts.attempt("training"):
            cell.expect_unchanged()
            if self._is_conforming(cell, attempts):
                return self._maker.made(cell, ExitStack())
        return None

    def _is_conforming(self, cell: Cell, attempts: Attempts) -> bool:
        """Check the model; False, with the reason in `attempts`, if it does not conform."""
        with attempts.attempt("conformance"):
            self._maker.expect_conforming(cell)
            return True
        return False

    def _measure(self, cell: Cell, made: Made, todo: Sequence[Measurement], attempts: Attempts) -> None:
        measurer = Measurer(
            cell,
            made.record,
            made.view,
            self._store,
            self._doing,
            lambda relations: open_relations(relations, self._maker, self._store, self._doing),
        )
        measurer.measure(todo, attempts)

    def _train_related(self, todo: Sequence[Measurement], attempts: Attempts) -> _Readiness:
        """Train the cells that measurements need, where nobody else does; what fails fails those measurements."""
        found = _Readiness()
        failed: dict[str, str] = {}
        there: dict[str, bool] = {}
        for measurement in todo:
            for other in measurement.related:
                if other.identity in there or other.identity in failed:
                    continue
                attempt = Attempts()
                with attempt.attempt("training"):
                    there[other.identity] = self._is_there(other)
                for failure in attempt.failures:
                    failed[other.identity] = f"{name_of(other.key)}, which it needs: {failure.message}"
                attempts.tracebacks += attempt.tracebacks
            messages = [failed[other.identity] for other in measurement.related if other.identity in failed]
            missing = [other for other in measurement.related if not there.get(other.identity, True)]
            if messages:
                name = measurement.protocol.name
                attempts.failures.append(Failure(stage="measuring", protocol=name, message=messages[0], time=now()))
            elif missing:
                found.later.append(measurement)
                found.needs = missing[0].key
            else:
                found.ready.append(measurement)
        return found

    def _is_there(self, other: Cell) -> bool:
        """Whether a related cell needs no training any more, which it gets now if it can; False if others hold it."""
        if self._maker.is_trained(other) or self._maker.lacks(other) is not None:
            return True
        with self._store.lock(other.identity) as held:
            if held:
                self._listen(CellStarted(self._number, other.key))
                other.expect_unchanged()
                self._maker.expect_conforming(other)
                with ExitStack() as edits:
                    self._maker.made(other, edits)
            return held

    def _write_failures(self, cell: Cell, attempts: Attempts) -> None:
        self._store.write_failures(CellFailures(cell=cell.key, failures=attempts.failures))

    def _stepped(self, step: int, steps: int, loss: float, accuracy: float | None) -> None:
        self._listen(Stepped(self._number, step, steps, loss, accuracy))

    def _doing(self, what: str) -> None:
        self._listen(Doing(self._number, what))

    def _tell(self, text: str) -> None:
        self._listen(Told(text))
