"""The bridge to PyG: its graphs as a source, stored graphs as its datasets and batches, and what is attached to both.

The names of `__init__.pyi` are imported when first used.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
