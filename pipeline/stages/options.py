"""Turn pydantic's complaints about parameters into one sentence a person can act on."""

import reprlib
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from leap.store.errors import InvalidInputError

Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], **values: Any) -> Model:
    """Build a model, or raise InvalidInputError naming each value that does not fit."""
    try:
        return model(**values)
    except ValidationError as error:
        complaints = [_complaint(entry["loc"], entry["input"], entry["msg"]) for entry in error.errors()]
        raise InvalidInputError("; ".join(complaints) + ".") from None


def _complaint(path: tuple[int | str, ...], value: Any, message: str) -> str:
    problem = message.lower().removeprefix("value error, ")
    # What concerns several values together says so itself.
    return f"{'.'.join(map(str, path))} is {reprlib.repr(value)}: {problem}" if path else problem
