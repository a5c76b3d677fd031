"""Preprocess graphs once, cache everything, and train learnable local positional encodings (LEAP) on it.

The code is in `leap.store`, `leap.models`, `leap.pipeline` and `leap.cli`, the folders at the top of the repository.
"""

from importlib.metadata import version

__version__ = version("leap-graph")
