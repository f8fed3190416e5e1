"""layerstate: where along its depth a sequence model holds the state that a task asks it to track.

The parts are sub-packages, one a top-level folder of the repository: `layerstate.tasks`, `layerstate.adapters`,
`layerstate.suite` and `layerstate.leaderboard`. The command line is ``layerstate --help``.
"""


def __getattr__(name: str) -> str:
    # Looked up when asked for: reading package metadata would double the start-up time of the command line.
    if name == "__version__":
        from importlib.metadata import version

        return version("layerstate")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
