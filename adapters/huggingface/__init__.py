"""Pretrained causal language models: found, loaded, taken apart by structure, and wrapped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..base import AdapterError
from .checkpoint import checkpoint_digest, folder_problem

if TYPE_CHECKING:
    from ..module import ModuleAdapter

__all__ = ["build_huggingface", "checkpoint_digest", "folder_problem"]


def build_huggingface(options: Mapping[str, Any], **common: Any) -> ModuleAdapter:
    """The adapter of a pretrained model; see `build.build_huggingface`, which is imported when it is first needed.

    Raises
    ------
    AdapterError
        If transformers is not installed, or the model can't be built.
    """
    try:
        import transformers  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise AdapterError("`adapter: huggingface` needs transformers: install layerstate[hf].") from None
    from .build import build_huggingface as build

    return build(options, **common)
