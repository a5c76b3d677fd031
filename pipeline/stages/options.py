"""Turn pydantic's complaints about parameters into one sentence a person can act on."""

import reprlib
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from leap.store.errors import InvalidInputError

Model = TypeVar("Model", bound=BaseModel)
MOST_GIB = 2**20


def validated(model: type[Model], **values: Any) -> Model:
    """Build a model, or raise InvalidInputError naming each value that does not fit."""
    try:
        return model(**values)
    except ValidationError as error:
        complaints = [_complaint(entry["loc"], entry["input"], entry["msg"]) for entry in error.errors()]
        raise InvalidInputError("; ".join(complaints) + ".") from None


def checked_gib(name: str, value: float) -> float:
    """Return an amount of memory in GiB, or raise InvalidInputError if it is no amount."""
    if not 0 < value <= MOST_GIB:  # nan neither
        raise InvalidInputError(f"{name} is {value}: give a number of GiB above 0, at most {MOST_GIB:,}.")
    return value


def _complaint(path: tuple[int | str, ...], value: Any, message: str) -> str:
    problem = message.lower().removeprefix("value error, ")
    # What concerns several values together says so itself.
    return f"{'.'.join(map(str, path))} is {reprlib.repr(value)}: {problem}" if path else problem
