"""The engine for runs: requests → plan → artifacts → folds as jobs → run folders → results.

`train` is one request, `sweep` many; nothing is written twice for the two. The module `fold`, which needs torch, is
imported when first used.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
