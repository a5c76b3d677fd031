"""Measurements against what one writes with PyG alone, all within one run, and of memory on a large graph."""
