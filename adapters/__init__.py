"""Adapters: one view of any sequence model. Nothing here imports torch until a model is built or read.

`build_adapter` makes one from a spec's fields; `check` proves that it keeps the contract of `base.Adapter`.
"""

from __future__ import annotations

from .base import Adapter, AdapterError, Edit, EditNeverFired, FieldError, Fired
from .build import VERSIONS, adapter_version, build_adapter
from .conformance import CheckResult, check
from .huggingface import checkpoint_digest, folder_problem
from .running import ModelRuns, is_device_failure, is_out_of_memory
from .source import source_digest
from .weights import load_weights, save_weights

__all__ = [
    "VERSIONS",
    "Adapter",
    "AdapterError",
    "CheckResult",
    "Edit",
    "EditNeverFired",
    "FieldError",
    "Fired",
    "ModelRuns",
    "adapter_version",
    "build_adapter",
    "check",
    "checkpoint_digest",
    "folder_problem",
    "is_device_failure",
    "is_out_of_memory",
    "load_weights",
    "save_weights",
    "source_digest",
]
