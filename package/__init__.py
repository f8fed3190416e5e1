"""layerstate: where along its depth a sequence model holds the state that a task asks it to track.

The parts are sub-packages, one a top-level folder of the repository: `layerstate.tasks`, `layerstate.adapters`,
`layerstate.suite` and `layerstate.leaderboard`. The command line is ``layerstate --help``.
"""

from importlib.metadata import version

__version__ = version("layerstate")
