"""Showing a run while it goes on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO, cast

from ..spec.results import CellKey
from .events import CellEnded, CellStarted, CellWaits, Doing, Event, Listen, Stepped, Told, name_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["Board", "duration", "shown"]

_LINE_SECONDS = 30.0


def duration(seconds: float) -> str:
    """Seconds in words a person reads at a glance: 8 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@dataclass
class Row:
    """What one worker is at."""

    cell: CellKey
    started: float
    what: str = "starting"
    step: int = 0
    steps: int = 0
    loss: float | None = None
    accuracy: float | None = None
    stepping_since: float = 0.0
    first_step: int = 0

    @property
    def left(self) -> float | None:
        """Seconds to the last step of the training, at the pace so far."""
        taken = self.step - self.first_step
        if self.what != "training" or taken < 1:
            return None
        return (time.monotonic() - self.stepping_since) / taken * (self.steps - self.step)


@dataclass
class Board:
    """How far a run is, from its events.

    Attributes
    ----------
    total : int
        Cells to work on.
    expected : mapping of str to float
        Estimated seconds by cell identity, where something similar is finished.
    """

    total: int
    expected: Mapping[str, float] = field(default_factory=dict[str, float])
    done: int = 0
    failed: int = 0
    waiting: bool = False
    rows: dict[int, Row] = field(default_factory=dict[int, Row])
    started: float = field(default_factory=time.monotonic)

    def hear(self, event: Event) -> None:
        """Take in one event."""
        if isinstance(event, CellStarted | CellWaits):
            self.waiting = isinstance(event, CellWaits)
        if isinstance(event, CellStarted):
            self.rows[event.worker] = Row(event.cell, time.monotonic())
        elif isinstance(event, CellWaits):
            self.rows.pop(event.worker, None)
        elif isinstance(event, CellEnded):
            self.rows.pop(event.worker, None)
            self.done += 1
            self.failed += bool(event.failures)
        elif isinstance(event, Doing) and event.worker in self.rows:
            self.rows[event.worker].what = event.what
        elif isinstance(event, Stepped) and event.worker in self.rows:
            self._step(self.rows[event.worker], event)

    def _step(self, row: Row, event: Stepped) -> None:
        if not row.steps:
            row.stepping_since, row.first_step = time.monotonic(), event.step
        row.what = "training"
        row.step, row.steps, row.loss, row.accuracy = event.step, event.steps, event.loss, event.accuracy

    @property
    def left(self) -> float | None:
        """About how many seconds are left, at the pace so far; None before the first cell is done."""
        if not self.done:
            return None
        parts = sum((row.step / row.steps if row.steps else 0.0) for row in self.rows.values())
        finished = min(float(self.total), self.done + parts)
        return (time.monotonic() - self.started) * (self.total - finished) / finished

    def headline(self) -> str:
        """Cells done, failed, time gone and left, in one line."""
        failed = f", {self.failed} failed" if self.failed else ""
        left = self.left
        rest = f", about {duration(left)} left" if left is not None and self.done < self.total else ""
        return f"{self.done}/{self.total} cells{failed} in {duration(time.monotonic() - self.started)}{rest}"


@contextmanager
def shown(total: int, stream: TextIO) -> Generator[Listen]:
    """Show a run of `total` cells on `stream`; yields what the run's events are given to."""
    from rich.console import Console

    board = Board(total)
    lasting = cast("TextIO", _Lasting(stream))
    console = Console(file=lasting, highlight=False)
    if console.is_terminal and not console.is_dumb_terminal:
        with _live(board, console) as listen:
            yield listen
    else:
        yield _Lines(board, lambda line: print(line, file=lasting, flush=True)).hear


class _Lasting(io.TextIOBase):
    """A stream that falls silent when it can't be written any more (a closed pipe, a full disk): the work goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._gone = False

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._stream.encoding

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str, /) -> int:
        if not self._gone:
            try:
                self._stream.write(text)
            except OSError:
                self._gone = True
        return len(text)

    def flush(self) -> None:
        if not self._gone:
            try:
                self._stream.flush()
            except OSError:
                self._gone = True


@contextmanager
def _live(board: Board, console: Console) -> Generator[Listen]:
    from rich.live import Live
    from rich.text import Text

    def hear(event: Event) -> None:
        board.hear(event)
        said = message(event)
        if said:
            live.console.print(Text(said))

    with Live(get_renderable=lambda: table(board, console.width), console=console, refresh_per_second=4) as live:
        yield hear


def table(board: Board, width: int) -> RenderableType:
    """The live table: a headline and one row a worker, the least important columns left out on a narrow terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for minimum in (0, 60, 80, 100):
        if width >= minimum:
            rows.add_column(no_wrap=True, justify="right")
    for _, row in sorted(board.rows.items()):
        cells = [
            Text(name_of(row.cell)),
            Text(f"step {row.step}/{row.steps}" if row.what == "training" and row.steps else row.what),
            Text("" if row.accuracy is None else f"accuracy {row.accuracy:.3f}"),
            Text("" if row.loss is None else f"loss {row.loss:.3f}"),
            Text("" if row.left is None else f"≤ {duration(row.left)}"),
        ]
        rows.add_row(*cells[: len(rows.columns)])
    if not board.rows and board.done < board.total:
        rows.add_row(Text("another run works on what is left; waiting" if board.waiting else "starting"))
    bar = ProgressBar(total=max(1, board.total), completed=board.done, width=min(40, width // 3))
    head = Table.grid(padding=(0, 1))
    head.add_column()
    head.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    head.add_row(bar, Text(board.headline()))
    return Group(head, rows)


def message(event: Event) -> str | None:
    """What stays on the screen of an event: the end of a cell, and what a person should know."""
    if isinstance(event, Told):
        return event.text
    if isinstance(event, CellEnded):
        if not event.failures:
            return f"{name_of(event.cell)}: done"
        name = name_of(event.cell)
        return "\n".join(f"{name}: FAILED ({each.protocol or each.stage}): {each.message}" for each in event.failures)
    return None


class _Lines:
    """Plain lines: each cell's end, and now and then where the workers are."""

    def __init__(self, board: Board, write: Callable[[str], None]) -> None:
        self._board = board
        self._write = write
        self._last = time.monotonic()
        self._waiting: set[tuple[CellKey, CellKey | None]] = set()

    def hear(self, event: Event) -> None:
        self._board.hear(event)
        said = message(event)
        if said:
            ended = isinstance(event, CellEnded)
            self._write(f"[{self._board.headline()}] {said}" if ended else said)
            self._last = time.monotonic()
        if isinstance(event, CellWaits) and (event.cell, event.needs) not in self._waiting:
            self._waiting.add((event.cell, event.needs))
            self._write(f"{name_of(event.cell)}: {_why(event)}; waiting")
        if isinstance(event, Stepped) and time.monotonic() - self._last >= _LINE_SECONDS:
            self._last = time.monotonic()
            self._write("; ".join(_line(row) for _, row in sorted(self._board.rows.items())))


def _why(event: CellWaits) -> str:
    if event.needs is None:
        return "another run works on it"
    return f"needs {name_of(event.needs)}, which another worker or run is at"


def _line(row: Row) -> str:
    if not row.steps:
        return f"{name_of(row.cell)}: {row.what}"
    accuracy = "" if row.accuracy is None else f", accuracy {row.accuracy:.3f}"
    return f"{name_of(row.cell)}: step {row.step}/{row.steps}{accuracy}"
