"""Turn wrong parameters into one sentence a person can act on."""

from leap.store.errors import InvalidInputError
from leap.store.option import validated

__all__ = ["checked_gib", "validated"]

MOST_GIB = 2**20


def checked_gib(name: str, value: float) -> float:
    """Return an amount of memory in GiB, or raise InvalidInputError if it is no amount."""
    if not 0 < value <= MOST_GIB:  # nan neither
        raise InvalidInputError(f"{name} is {value}: give a number of GiB above 0, at most {MOST_GIB:,}.")
    return value
