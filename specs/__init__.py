"""The built-in specs, YAML only: `FOLDER` holds tasks/, models/, protocols/, suites/, claims/ and the JSON Schema."""

from pathlib import Path

__all__ = ["FOLDER"]

FOLDER = Path(__file__).parent
