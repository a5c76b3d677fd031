"""Datasets, Dask stages, training, experiments and reports.

The names of `__init__.pyi` are imported when first used, so that a cached command pays neither for torch nor for numba.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
