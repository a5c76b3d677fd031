"""Numeric kernels: arrays in, arrays out; they know nothing of torch, stores, Dask or commands.

The names of `__init__.pyi` are imported when first used, and numba and scipy with them. `border` checks what comes in,
`compiling` says how loops are compiled, `threads` how they share the cores.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
