"""Experiments: sweeps over many runs, presets of the paper's tables and figures, and the table of results."""
