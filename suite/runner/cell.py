"""The work on one cell, in whatever process: check the model, train it or load it, measure what is missing."""

from __future__ import annotations

import gc
import hashlib
import warnings
from pathlib import Path

import torch

from ...adapters import load_weights, save_weights
from ...adapters.base import Adapter
from ...tasks.base import Task
from ..spec.identity import canonical
from ..spec.results import CellRecord
from .attempts import Attempts
from .conformance import build_model, check_adapter, load_task_of
from .curriculum import make_stages
from .errors import CellFailed
from .events import CellEnded, CellStarted, CellWaits, Doing, Listen, Stepped, Told
from .files import translated
from .interrupt import Interrupt
from .measuring import Measurer, clean_accuracy
from .plan import Cell, Measurement
from .provenance import peak_memory_mb, provenance, reset_peak_memory
from .settings import Settings
from .store import CellFailures, Failure, Store
from .threads import one_thread
from .train import Trained, train
from .view import View

__all__ = ["Worker"]


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
        self._interrupt = interrupt
        self._store = Store(settings.out, self._tell)
        self._device = resolve_device(settings.device)
        self._conforms: dict[str, str] = {}

    def work(self, cell: Cell) -> bool:
        """Do what is missing in `cell`; False if another run holds it now.

        What goes wrong in it is recorded in its `failure.json` and told; only what concerns all cells is raised.
        """
        with self._store.lock(cell.identity) as held:
            if not held:
                self._listen(CellWaits(self._number, cell.key))
                return False
            self._listen(CellStarted(self._number, cell.key))
            with one_thread(), warnings.catch_warnings():
                # Shared arrays are read-only on purpose, and torch only reads them.
                warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
                failures = self._complete(cell)
            self._store.write_failures(CellFailures(cell=cell.key, failures=failures))
        self._listen(CellEnded(self._number, cell.key, tuple(failures)))
        return True

    def _complete(self, cell: Cell) -> list[Failure]:
        todo = [each for each in cell.measurements if self._store.read_result(each.identity) is None]
        attempts = Attempts()
        if todo:
            self._attempt(cell, todo, attempts)
        if attempts.failures:
            gc.collect()  # a traceback keeps the activations of its cell alive
        if self._settings.debug:
            for text in attempts.tracebacks:
                self._tell(text)
        return attempts.failures

    def _attempt(self, cell: Cell, todo: list[Measurement], attempts: Attempts) -> None:
        made: tuple[CellRecord, View] | None = None
        with attempts.attempt("training"):
            cell.expect_unchanged()
            trained = self._trained(cell)
            if self._is_checked(cell, trained) or self._is_conforming(cell, attempts):
                made = self._make(cell) if trained is None else self._load(cell, *trained)
        if made is not None:
            record, view = made
            Measurer(cell, record, view, self._store, self._doing).measure(todo, attempts)

    def _trained(self, cell: Cell) -> tuple[CellRecord, Path] | None:
        """The record and the weights of the trained cell, or None if it has to be trained."""
        record = self._store.read_cell(cell.identity)
        weights = self._store.weights(record) if record else None
        return None if record is None or weights is None else (record, weights)

    def _is_checked(self, cell: Cell, trained: tuple[CellRecord, Path] | None) -> bool:
        """Whether the model was checked before its training as it is now: sites can change afterwards."""
        return trained is not None and canonical(trained[0].specs["model"]) == canonical(cell.specs()["model"])

    def _is_conforming(self, cell: Cell, attempts: Attempts) -> bool:
        """Check the model; False, with the reason in `attempts`, if it does not conform."""
        with attempts.attempt("conformance"):
            self._expect_conforming(cell, load_task_of(cell.task))
            return True
        return False

    def _load(self, cell: Cell, record: CellRecord, weights: Path) -> tuple[CellRecord, View]:
        """The trained cell from its files."""
        self._doing("loading")
        return record, self._view(cell, weights)

    def _make(self, cell: Cell) -> tuple[CellRecord, View]:
        """Train the cell and write its files."""
        task = load_task_of(cell.task)
        adapter = self._build(cell, task)
        reset_peak_memory(adapter.device)
        trained = self._train(cell, task, adapter)
        weights = self._store.weights_path(cell.identity)
        try:
            save_weights(adapter, weights)
        except OSError as error:
            raise translated(error, weights) from error
        # What is measured is what the file holds: a model may keep state that is not among its weights.
        view = self._view(cell, weights)
        record = self._record(cell, view, trained, weights)
        self._store.write_cell(record)
        return record, view

    def _train(self, cell: Cell, task: Task, adapter: Adapter) -> Trained:
        self._doing("training")
        with self._interrupt.gently():
            return train(
                adapter,
                make_stages(task, cell.task_spec, cell.training, cell.task.base),
                cell.training,
                cell.seed,
                state=self._store.state_path(cell.identity),
                on_step=self._stepped,
                should_stop=lambda: self._interrupt.asked,
                tell=self._tell,
                save_every=self._settings.save_every,
            )

    def _record(self, cell: Cell, view: View, trained: Trained, weights: Path) -> CellRecord:
        return CellRecord(
            cell=cell.key,
            specs=cell.specs(),
            parameters=sum(p.numel() for p in view.adapter.module.parameters() if p.requires_grad),
            steps=trained.steps,
            stopped_early=trained.stopped_early,
            curve=trained.curve,
            clean_accuracy=clean_accuracy(view),
            weights_sha256=hashlib.sha256(weights.read_bytes()).hexdigest(),
            seconds=trained.seconds,
            peak_memory_mb=peak_memory_mb(view.adapter.device),
            provenance=provenance(view.adapter.device),
        )

    def _view(self, cell: Cell, weights: Path) -> View:
        task = load_task_of(cell.task)
        adapter = self._build(cell, task)
        load_weights(adapter, weights)
        return View(adapter, task, cell.task_spec, cell.seed, lambda: self._build(cell, task))

    def _build(self, cell: Cell, task: Task) -> Adapter:
        return build_model(cell.model, task, cell.seed, self._device)

    def _expect_conforming(self, cell: Cell, task: Task) -> None:
        """Raise unless the model conforms; looked at once a model, on a copy that is never trained."""
        key = canonical(cell.specs()["model"])
        if key not in self._conforms:
            self._doing("checking the model")
            results = check_adapter(self._build(cell, task), task, cell.task_spec.lengths.train)
            self._conforms[key] = " ".join(result.message for result in results if not result.passed)
        if self._conforms[key]:
            raise CellFailed(f"The model {cell.model.name} does not conform: {self._conforms[key]}")

    def _stepped(self, step: int, steps: int, loss: float, accuracy: float | None) -> None:
        self._listen(Stepped(self._number, step, steps, loss, accuracy))

    def _doing(self, what: str) -> None:
        self._listen(Doing(self._number, what))

    def _tell(self, text: str) -> None:
        self._listen(Told(text))


def resolve_device(device: str) -> str:
    """The device itself for ``auto``: cuda where torch finds it, else cpu."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"
