"""Claims: declared statements over metrics, judged on results. Nothing here imports torch."""

from __future__ import annotations

from .judging import judge
from .verdicts import Part, Verdict, VerdictWord

__all__ = ["Part", "Verdict", "VerdictWord", "judge"]
