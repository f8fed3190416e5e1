"""What failures of the Hugging Face Hub mean: which ones pass by themselves, and what to do about the others."""

from __future__ import annotations

import errno
from collections.abc import Generator
from typing import Any

__all__ = ["LOG_IN", "first_line", "is_offline", "is_passing", "lasting_reason"]

LOG_IN = "`hf auth login`, or the variable HF_TOKEN"

_PASSING = (408, 425, 429, 500, 502, 503, 504)
_CACHE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


def is_offline(hub: Any, error: BaseException) -> bool:
    """Whether nothing was asked because HF_HUB_OFFLINE is set."""
    return hub.constants.HF_HUB_OFFLINE or any(
        isinstance(each, hub.errors.OfflineModeIsEnabled) for each in _chain(error)
    )


def lasting_reason(hub: Any, error: BaseException, repo: str, revision: str | None) -> tuple[str, str] | None:
    """Why trying again is of no use, as a sentence and the field that is to blame; None where it may help.

    Parameters
    ----------
    hub : module
        huggingface_hub.
    error : exception
        What a call to it raised.
    repo : str
        Id of the data set that was asked for.
    revision : str, optional
        Which revision of it.
    """
    chain, errors = list(_chain(error)), hub.errors
    place = f"{hub.constants.ENDPOINT}/datasets/{repo}"
    known = (
        (errors.GatedRepoError, "dataset", f"{repo!r} is gated: ask for access at {place}, then log in ({LOG_IN})"),
        (
            errors.RepositoryNotFoundError,
            "dataset",
            f"there is no data set {repo!r} at {place}, or it is private and the token ({LOG_IN}) doesn't open it",
        ),
        (errors.RevisionNotFoundError, "revision", f"{repo!r} has no revision {revision!r}; see {place}/commits"),
        (errors.HFValidationError, "dataset", f"{repo!r} is no data set's id; user/name would be right"),
    )
    for kind, field, text in known:
        if any(isinstance(each, kind) for each in chain):
            return text, field
    for each in chain:
        status = _status(each)
        if status is not None and status not in _PASSING:
            return f"the Hub refuses {repo!r} (HTTP {status}: {first_line(each)})", "dataset"
        if isinstance(each, OSError) and each.errno in _CACHE_ERRORS:
            cache = hub.constants.HF_HUB_CACHE
            return (
                f"the cache {cache} cannot be written ({each.strerror}); free space, or set HF_HUB_CACHE or HF_HOME to "
                "another folder"
            ), "dataset"
    return None if is_passing(hub, error) else (f"the Hub cannot be asked for {repo!r}: {first_line(error)}", "dataset")


def is_passing(hub: Any, error: BaseException) -> bool:
    """Whether it may go better in a moment: no connection, a broken one, a server that is busy or down."""
    kinds = (OSError, hub.errors.HTTPError)
    return any(isinstance(each, kinds) and _status(each) in (None, *_PASSING) for each in _chain(error))


def first_line(error: BaseException) -> str:
    """The innermost cause, on one line."""
    cause = list(_chain(error))[-1]
    text = next((line.strip() for line in str(cause).splitlines() if line.strip()), "")
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _chain(error: BaseException) -> Generator[BaseException]:
    """An error and what caused it."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__
