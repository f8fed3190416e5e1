"""The other cells that a measurement needs, opened when its protocol asks for them and closed after it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager

from ...tasks.errors import LayerstateError
from ..protocols import Related
from ..spec.results import GateReading
from .errors import CellFailed
from .making import Maker
from .measuring import measured_gate
from .plan import Cell
from .store import Store
from .view import View

__all__ = ["Relations", "open_relations"]


class Relations:
    """Gives related cells by name, each opened once.

    Attributes
    ----------
    identities : dict of str to str
        The related cells that were opened, by relation.
    """

    def __init__(
        self,
        relations: Mapping[str, Cell | str],
        maker: Maker,
        store: Store,
        doing: Callable[[str], None],
        edits: ExitStack,
    ) -> None:
        self._relations = relations
        self._maker = maker
        self._store = store
        self._doing = doing
        self._edits = edits
        self._found: dict[str, Related] = {}
        self._views: dict[str, tuple[Cell, View]] = {}
        self.identities: dict[str, str] = {}

    def __call__(self, name: str) -> Related:
        """The related cell; CellFailed if the protocol declared none of this name."""
        if name not in self._relations:
            declared = ", ".join(self._relations) or "none"
            raise CellFailed(f"The protocol asks for the related cell {name!r} and declares {declared}.")
        if name not in self._found:
            related = self._relations[name]
            self._found[name] = Related(None, reason=related) if isinstance(related, str) else self._open(name, related)
        return self._found[name]

    def take_forward_seconds(self) -> float:
        """Seconds of forward passes of the related cells since the last call."""
        return sum(view.take_forward_seconds()[0] for _, view in self._views.values())

    def take_digests(self) -> dict[str, str]:
        """The digests of the data of related tasks, by task:split/length."""
        return {
            f"{cell.task.name}:{data}": digest
            for cell, view in self._views.values()
            if cell.without is None
            for data, digest in view.take_digests().items()
        }

    def _open(self, name: str, cell: Cell) -> Related:
        lacks = self._maker.lacks(cell)
        if lacks is not None:
            return Related(None, reason=lacks)
        self._doing(f"loading {_called(cell)}")
        _, view = self._maker.loaded(cell, self._edits)
        self._views[name] = (cell, view)
        self.identities[name] = cell.identity
        gate = self._gate(cell, view)
        view.take_digests()  # what the gate was read on is no data of the protocol's
        return Related(view, gate.passed, None if gate.passed else _below(cell, gate), view.backend)

    def _gate(self, cell: Cell, view: View) -> GateReading:
        stored = self._store.read_result(cell.gate_result)
        if stored is not None:
            return stored.gate
        try:
            return measured_gate(cell, view)
        except LayerstateError as error:
            raise CellFailed(f"Whether {_called(cell)} passes the gate could not be measured: {error}") from error


@contextmanager
def open_relations(
    relations: Mapping[str, Cell | str], maker: Maker, store: Store, doing: Callable[[str], None]
) -> Generator[Relations]:
    """While open, related cells can be asked for; the ablations of those without a component end with it."""
    with ExitStack() as edits:
        yield Relations(relations, maker, store, doing, edits)


def _called(cell: Cell) -> str:
    return cell.task.name if cell.without is None else f"{cell.task.name} without {'/'.join(cell.without)}"


def _below(cell: Cell, gate: GateReading) -> str:
    shown = "undefined, not" if gate.value is None else f"{gate.value:.3f} below"
    return f"{_called(cell)} {shown} {gate.at_least:g}"
