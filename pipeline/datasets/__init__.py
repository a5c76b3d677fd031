"""Datasets: from a name, a path or graphs in memory to raw graphs."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
