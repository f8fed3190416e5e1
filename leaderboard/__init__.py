"""The leaderboard: result files in, a static site out. It never imports torch."""

from .build import build_site

__all__ = ["build_site"]
