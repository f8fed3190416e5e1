"""What can go wrong while a suite runs."""

from __future__ import annotations

from ...tasks.errors import LayerstateError

__all__ = ["CellFailed", "RunStopped"]


class CellFailed(LayerstateError):
    """A cell cannot be trained or measured; the others go on, and the next run tries it again."""

    exit_code = 3


class RunStopped(LayerstateError):
    """The run cannot go on, for all cells alike; what is finished is kept."""

    exit_code = 3
