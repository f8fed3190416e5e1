"""The integer versions that this folder adds to a cell's identity. Imports nothing."""

TRAINING_VERSION = 1
"""Raised whenever the same recipe could give other weights."""
VALIDATION_SEQUENCES = 500
"""Sequences on which early stopping is decided; a change needs a new TRAINING_VERSION."""
