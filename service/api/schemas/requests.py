"""Search requests in multipart forms, where every field is text and an empty field counts as absent."""

from typing import Annotated, Any, TypeAlias

from pydantic import ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator, field_validator
from pydantic_core import PydanticCustomError, from_json

from service.api.query_parameters import no_number
from service.search.requests import ImageSearchRequest, PictureFilter


def _from_json(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    if not isinstance(value, str):
        return handler(value)
    try:
        return handler(from_json(value, allow_inf_nan=False) if value else None)
    except ValidationError:
        raise
    except ValueError as fault:
        raise PydanticCustomError("text_of_json", "is not JSON: {message}", {"message": str(fault)}) from fault


FilterText: TypeAlias = Annotated[PictureFilter | None, WrapValidator(_from_json)]
"""A filter as JSON text, empty for none. Faults name the fields inside."""


class ImageSearchForm(ImageSearchRequest):
    """The form fields besides `image` of a search for captions of a picture, or for pictures like it."""

    model_config = ConfigDict(strict=False)  # a form has texts alone

    model: str | None = Field(None, max_length=200, description="A model of GET /models; empty for the default.")
    min_probability: float | None = Field(
        None, ge=0, le=1, description="Leave out captions that are less probable; not for pictures like a picture."
    )
    group_near_duplicates: bool = Field(
        False, description="Show pictures that look the same as one result that names them; for target=images."
    )
    filter: FilterText = Field(None, description="The filter of POST /search/text as JSON text.")
    partial: bool = Field(
        True, description="Of a collection on several machines: answer from those that are there; false for 503."
    )

    @field_validator("model", "query", "image_id", "min_score", "min_probability", mode="before")
    @classmethod
    def _empty_as_none(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("k", "shortlist", "min_score", "min_probability", mode="before")
    @classmethod
    def _is_written_as_number(cls, value: Any) -> Any:
        if isinstance(value, str) and (problem := no_number(value)) is not None:
            raise ValueError(problem)
        return value
