"""The one family of errors that a user may meet: what was found, where, and what would be right."""

from __future__ import annotations

__all__ = ["LayerstateError", "SpecError", "TaskError"]


class LayerstateError(Exception):
    """A mistake or a condition that the user can act on; printed as a message, never as a traceback.

    ``exit_code`` is what the command line returns for it: 1 where a spec or submission is wrong,
    3 where a cell failed.
    """

    exit_code = 1


class SpecError(LayerstateError):
    """A spec is wrong: the message names the file, the place, what was found and what would be right."""


class TaskError(LayerstateError):
    """A task family was given parameters it cannot use.

    Parameters
    ----------
    message : str
        What is wrong, and what would be right.
    field : str, optional
        The name of the parameter, so that the loader can point at its line.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
