"""transformers without its progress bars and remarks: what matters comes out as an `AdapterError`."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["quiet"]


@contextmanager
def quiet() -> Generator[None]:
    """While open, transformers writes nothing; afterwards it is as it was."""
    from transformers.utils import logging as theirs

    before, bars = theirs.get_verbosity(), theirs.is_progress_bar_enabled()
    theirs.set_verbosity(logging.CRITICAL)
    theirs.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        theirs.set_verbosity(before)
        if bars:
            theirs.enable_progress_bar()
