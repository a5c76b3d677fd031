"""The differentiable Euler characteristic transform, LEAP and its projections.

The names of `__init__.pyi` are imported when first used: the kernels beneath need no torch, and the pipeline uses them
without it.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
