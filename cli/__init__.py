"""The `leap` command: thin typer commands, one file each.

The modules of `__init__.pyi` are imported when first used, so that a command can be stopped before it has loaded them.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
