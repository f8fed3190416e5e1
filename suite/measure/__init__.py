"""The mathematics of measuring: arrays in, numbers out, no files and no models. Importing it needs NumPy alone."""
