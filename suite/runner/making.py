"""From a planned cell to a trained one, in whatever process: check the model, train it, or load what was trained."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from ...adapters import load_weights, save_weights
from ...adapters.base import Adapter
from ...tasks.base import Task
from ..spec.identity import canonical
from ..spec.results import CellRecord
from .conformance import build_model, check_adapter, load_task_of
from .curriculum import make_stages
from .errors import CellFailed
from .files import translated
from .interrupt import Interrupt
from .measuring import clean_accuracy
from .plan import Cell
from .provenance import backend_of, peak_memory_mb, provenance, reset_peak_memory
from .relations import no_component
from .settings import Settings
from .store import Store
from .train import Trained, train
from .view import View

__all__ = ["Made", "Maker"]


class Made(NamedTuple):
    """A trained cell: what its file says, and how protocols see it."""

    record: CellRecord
    view: View


class Maker:
    """Trains and loads cells; whoever calls it holds the locks.

    A cell without a component has that component ablated from its first training step, and in every view of it.

    Parameters
    ----------
    settings : Settings
        Of the run.
    store : Store
        The run folder.
    doing, stepped, tell : callable
        Are told what is being done, each training step, and of damaged files.
    interrupt : Interrupt
        Polled by training.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        *,
        doing: Callable[[str], None],
        stepped: Callable[[int, int, float, float | None], None],
        tell: Callable[[str], None],
        interrupt: Interrupt,
    ) -> None:
        self._settings = settings
        self._store = store
        self._seen = Store(settings.out, read_only=True)
        self._doing = doing
        self._stepped = stepped
        self._tell = tell
        self._interrupt = interrupt
        self._device = resolve_device(settings.device)
        self._conforms: dict[str, str] = {}

    def is_trained(self, cell: Cell) -> bool:
        """Whether record and weights are there and belong together; touches nothing, so it needs no lock."""
        return self._found(cell, self._seen) is not None

    def lacks(self, cell: Cell) -> str | None:
        """Why the model cannot be trained without what this cell is to be without; None if it can."""
        if cell.without is None:
            return None
        return no_component(*cell.without, self._build(cell, load_task_of(cell.task)).components)

    def expect_conforming(self, cell: Cell) -> None:
        """Raise unless the model conforms; looked at once a model, on a copy that is never trained.

        One that was checked before its training, as it is now, is not looked at again: sites can change afterwards.
        """
        trained = self._found(cell, self._store)
        key = canonical(cell.specs()["model"])
        if trained is not None and canonical(trained[0].specs["model"]) == key:
            return
        if key not in self._conforms:
            self._doing("checking the model")
            task = load_task_of(cell.task)
            results = check_adapter(self._build(cell, task), task, cell.task_spec.lengths.train)
            self._conforms[key] = " ".join(result.message for result in results if not result.passed)
        if self._conforms[key]:
            raise CellFailed(f"The model {cell.model.name} does not conform: {self._conforms[key]}")

    def made(self, cell: Cell, edits: ExitStack) -> Made:
        """The trained cell, trained now if need be: its lock must be held.

        Parameters
        ----------
        cell : Cell
            What is asked for.
        edits : ExitStack
            Holds the ablation of a cell without a component: the view is good until it is closed.
        """
        trained = self._found(cell, self._store)
        return self._make(cell, edits) if trained is None else self._load(cell, *trained, edits)

    def loaded(self, cell: Cell, edits: ExitStack) -> Made:
        """A cell that is trained already, from its files, for reading only; CellFailed if they are gone."""
        trained = self._found(cell, self._seen)
        if trained is None:
            raise CellFailed(
                f"The weights of the cell {cell.identity} are gone or damaged. Run the same command again."
            )
        return self._load(cell, *trained, edits)

    def _found(self, cell: Cell, store: Store) -> tuple[CellRecord, Path] | None:
        """The record and the weights of the trained cell, or None if it has to be trained."""
        record = store.read_cell(cell.identity)
        weights = store.weights(record) if record else None
        return None if record is None or weights is None else (record, weights)

    def _load(self, cell: Cell, record: CellRecord, weights: Path, edits: ExitStack) -> Made:
        self._doing("loading")
        view = self._view(cell, weights, edits)
        view.backend = backend_of(record)
        return Made(record, view)

    def _make(self, cell: Cell, edits: ExitStack) -> Made:
        """Train the cell and write its files."""
        task = load_task_of(cell.task)
        adapter = self._build(cell, task)
        reset_peak_memory(adapter.device)
        with _without(adapter, cell):
            pass  # a component that never runs is found before the training, not after it
        with _without(adapter, cell):
            trained = self._train(cell, task, adapter)
        weights = self._store.weights_path(cell.identity)
        try:
            save_weights(adapter, weights)
        except OSError as error:
            raise translated(error, weights) from error
        # What is measured is what the file holds: a model may keep state that is not among its weights.
        view = self._view(cell, weights, edits)
        record = self._record(cell, view, trained, weights)
        self._store.write_cell(record)
        view.backend = backend_of(record)
        return Made(record, view)

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

    def _view(self, cell: Cell, weights: Path, edits: ExitStack) -> View:
        task = load_task_of(cell.task)

        def edited(adapter: Adapter) -> Adapter:
            if cell.without is not None:
                edits.enter_context(_without(adapter, cell))
            return adapter

        adapter = self._build(cell, task)
        load_weights(adapter, weights)
        return View(edited(adapter), task, cell.task_spec, cell.seed, lambda: edited(self._build(cell, task)))

    def _build(self, cell: Cell, task: Task) -> Adapter:
        return build_model(
            cell.model,
            cell.task,
            task,
            cell.seed,
            self._device,
            length=cell.task_spec.lengths.train,
            trust_remote_code=self._settings.trust_remote_code,
        )


@contextmanager
def _without(adapter: Adapter, cell: Cell) -> Generator[None]:
    """While open, the model runs without the component that the cell is to be without, if there is one.

    Raises `EditNeverFired` when it is closed if the component is never run at all.
    """
    if cell.without is None:
        yield
        return
    with adapter.ablate(*cell.without):
        # Once at least, also where a training that was killed at its end has no step left to take.
        adapter.logits(np.zeros((1, cell.task_spec.lengths.train), np.int64))
        yield


def resolve_device(device: str) -> str:
    """The device itself for ``auto``: cuda where torch finds it, else cpu."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"
