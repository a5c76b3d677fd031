"""Sweep files and the presets of the paper's tables and figures: which runs to do. `engine` does them."""
