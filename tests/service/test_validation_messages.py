"""Messages about wrong values: none speaks of inputs that should be something."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from service.search.requests import ImageId
from service.validation_messages import plain_message


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Annotated[float, Field(le=1)], 90, "must be at most 1"),
        (Annotated[int, Field(ge=1)], 0, "must be at least 1"),
        (Annotated[int, Field(gt=1)], 0, "must be greater than 1"),
        (int, "x", "must be an integer"),
        (str, 5, "must be a string"),
        (bool, "x", "must be a boolean"),
        (Annotated[str, Field(max_length=2)], "abc", "must have at most 2 characters"),
        (Annotated[list[int], Field(min_length=1)], [], "must have at least 1 item, not 0"),
        (Literal["a", "b"], "c", "must be 'a' or 'b'"),
        (ImageId, "nope", "must be the id of a picture: 32 digits or letters a to f"),
    ],
)
def test_a_message_says_what_a_value_must_be(kind: Any, value: object, message: str) -> None:
    with pytest.raises(ValidationError) as fault:
        TypeAdapter(kind).validate_python(value)
    assert plain_message(fault.value.errors()[0]) == message
