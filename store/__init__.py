"""The feature store: content-addressed, immutable artifacts in Zarr v3 and Parquet.

The names of `__init__.pyi` are imported when first used. None of them needs torch or PyG, and none reads arrays until
asked to.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
