"""The runner: plan, training, measuring, run folder and executors. Importing this package imports no torch."""
