"""What a run shows: on terminals of any width, in pipes, and in words that hold for long and short times."""

from __future__ import annotations

import errno
import io
import re

import pytest
from layerstate.suite.runner.events import CellEnded, CellStarted, CellWaits, Doing, Event, Stepped, Told
from layerstate.suite.runner.progress import Board, duration, shown, table
from layerstate.suite.runner.store import Failure
from layerstate.suite.spec.results import CellKey
from rich.console import Console

FIRST = CellKey(identity="a" * 24, model="a_model_with_a_rather_long_name", task="parity", seed=0)
SECOND = CellKey(identity="b" * 24, model="lstm", task="[bold]s3[/bold]", seed=1)
FAILURE = Failure(stage="measuring", protocol="causal", message="it [red]broke[/red]", time="2026-01-01")
EVENTS: list[Event] = [
    CellStarted(0, FIRST),
    CellStarted(1, SECOND),
    Doing(0, "checking the model"),
    Stepped(0, 10, 100, 0.5, None),
    Stepped(0, 20, 100, 0.25, 0.75),
    Doing(1, "measuring causal"),
]


def board_after(events: list[Event], total: int = 3) -> Board:
    board = Board(total)
    for event in events:
        board.hear(event)
    return board


def rendered(board: Board, width: int) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=True, no_color=True).print(table(board, width))
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (3600, "1 h 0 min"), (7500, "2 h 5 min")],
)
def test_durations_are_read_at_a_glance(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize("width", [20, 40, 59, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = rendered(board_after(EVENTS), width).splitlines()
    assert max(len(line) for line in lines) <= width
    assert len(lines) == 3


def test_a_wide_terminal_shows_everything_and_a_name_is_no_markup() -> None:
    text = rendered(board_after(EVENTS), 140)
    for part in ("0/3 cells", "step 20/100", "accuracy 0.750", "loss 0.250", "measuring causal", "[bold]s3[/bold]"):
        assert part in text


def test_the_board_counts_what_is_done_and_what_failed() -> None:
    board = board_after([*EVENTS, CellEnded(0, FIRST, ()), CellEnded(1, SECOND, (FAILURE,))])
    assert (board.done, board.failed, board.rows) == (2, 1, {})
    assert board.headline().startswith("2/3 cells, 1 failed in ")
    assert "left" in board.headline()
    assert board_after(EVENTS).left is None


def test_a_cell_that_waits_is_no_longer_at_a_worker_and_says_for_what() -> None:
    twin = FIRST.model_copy(update={"identity": "d" * 24, "without": "conv1d/bypass"})
    board = board_after([*EVENTS, CellStarted(0, twin)])
    assert "without conv1d/bypass · parity" in rendered(board, 140)
    assert board.rows[0].steps == 0  # the steps of one training say nothing of the next
    board.hear(CellWaits(0, FIRST, twin))
    assert set(board.rows) == {1}
    assert board.done == 0
    stream = io.StringIO()
    with shown(2, stream) as listen:
        for event in (CellWaits(0, FIRST, twin), CellWaits(1, FIRST, twin), CellWaits(0, FIRST)):
            listen(event)
    name = "a_model_with_a_rather_long_name"
    assert stream.getvalue().splitlines() == [
        f"{name} · parity · seed 0: needs {name} without conv1d/bypass · parity · seed 0, "
        "which another worker or run is at; waiting",
        f"{name} · parity · seed 0: another run works on it; waiting",
    ]


def test_elsewhere_it_writes_plain_lines() -> None:
    stream = io.StringIO()
    with shown(2, stream) as listen:
        for event in [
            *EVENTS,
            CellWaits(0, FIRST),
            CellWaits(0, FIRST),
            Told("a file was set aside"),
            CellEnded(0, FIRST, ()),
            CellEnded(1, SECOND, (FAILURE,)),
        ]:
            listen(event)
    lines = stream.getvalue().splitlines()
    assert "\x1b" not in stream.getvalue()
    assert len(lines) == 4
    assert "another run works on it" in lines[0]
    assert lines[1] == "a file was set aside"
    assert lines[2].startswith("[1/2 cells in ")
    assert lines[2].endswith("a_model_with_a_rather_long_name · parity · seed 0: done")
    assert lines[3].endswith("lstm · [bold]s3[/bold] · seed 1: FAILED (causal): it [red]broke[/red]")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_stream_that_cannot_be_written_does_not_end_the_work(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    class Broken(io.StringIO):
        def isatty(self) -> bool:
            return terminal

        def write(self, _text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def flush(self) -> None:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setenv("TERM", "xterm-256color")
    with shown(1, Broken()) as listen:
        for event in [*EVENTS, Told("a file was set aside"), CellEnded(0, FIRST, ())]:
            listen(event)


def test_no_color_and_dumb_terminals_are_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "dumb")
    dumb = Terminal()
    with shown(1, dumb) as listen:
        listen(CellEnded(0, FIRST, ()))
    assert "\x1b" not in dumb.getvalue()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    with shown(1, plain) as listen:
        listen(CellStarted(0, FIRST))
        listen(CellEnded(0, FIRST, ()))
    assert "1/1 cells" in plain.getvalue()
    assert "\x1b[3" not in plain.getvalue()  # no colours, though the cursor still moves
