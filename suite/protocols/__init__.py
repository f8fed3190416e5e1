"""Protocols: declared ways to measure a trained cell. Importing this package imports no torch."""

from __future__ import annotations

from .base import CellView, Outcome, Params, ProtocolCode, Reading, Related, Relation, ScoredParams
from .registry import BUILT_IN, ENTRY_POINT_GROUP, load_protocol

__all__ = [
    "BUILT_IN",
    "ENTRY_POINT_GROUP",
    "CellView",
    "Outcome",
    "Params",
    "ProtocolCode",
    "Reading",
    "Related",
    "Relation",
    "ScoredParams",
    "load_protocol",
]
