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
    name = ".".join(map(str, path)) or "parameters"
    return f"{name} is {reprlib.repr(value)}: {message.lower().removeprefix('value error, ')}"
