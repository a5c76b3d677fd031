"""Turn pydantic's complaints about parameters into one sentence a person can act on."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from leap.store.errors import InvalidInputError

Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], **values: Any) -> Model:
    """Build a model, or raise InvalidInputError naming each value that does not fit."""
    try:
        return model(**values)
    except ValidationError as error:
        complaints = [
            f"{'.'.join(map(str, entry['loc'])) or 'parameters'} is {entry['input']!r}: {entry['msg'].lower()}"
            for entry in error.errors()
        ]
        raise InvalidInputError("; ".join(complaints) + ".") from None
