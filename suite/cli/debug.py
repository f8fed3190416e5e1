"""Whether tracebacks are shown."""

_state = {"on": False}


def set_debugging() -> None:
    """Show tracebacks from now on."""
    _state["on"] = True


def debugging() -> bool:
    """Whether tracebacks are shown."""
    return _state["on"]
