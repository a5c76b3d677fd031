"""Stored graphs: the typed content of artifacts, and batches streamed from it.

The names of `__init__.pyi` are imported when first used; only `attachment` needs torch.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
