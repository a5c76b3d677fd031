from . import fold as fold
