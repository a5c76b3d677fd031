"""The report: statistics, tables, figures and one page to look at.

Only `closeup` needs torch; like all names of `__init__.pyi` it is imported when first used.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
