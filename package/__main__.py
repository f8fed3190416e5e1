"""``python -m layerstate`` is the command ``layerstate``."""

from layerstate.suite.cli import main

if __name__ == "__main__":
    main()
