"""Search requests as multipart forms send them: every field is text, and an empty one was not filled in."""

from typing import Annotated, Any

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from service.search.requests import ImageId, ImageSearchRequest, PictureFilter


def _empty_as_none(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    return handler(None if value == "" else value)


def _filter_from_json(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    if value is None or value == "":
        return None
    try:
        return PictureFilter.model_validate_json(value) if isinstance(value, str) else handler(value)
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise PydanticCustomError(
            "filter", "{where}{message}", {"where": where and f"{where}: ", "message": first["msg"]}
        ) from fault


class ImageSearchForm(ImageSearchRequest):
    """The form fields beside `image`: which captions describe a picture, or which pictures look like it?"""

    image_id: Annotated[ImageId | None, WrapValidator(_empty_as_none)] = Field(
        None, description="A stored picture to ask with, instead of uploading one."
    )
    model: Annotated[str | None, WrapValidator(_empty_as_none)] = Field(
        None, max_length=200, description="A model of GET /models; empty for the default."
    )
    min_score: Annotated[float | None, WrapValidator(_empty_as_none)] = Field(
        None, description="Leave out results whose raw score is lower."
    )
    min_probability: Annotated[float | None, WrapValidator(_empty_as_none)] = Field(
        None, ge=0, le=1, description="Leave out captions that are less probable; not for pictures like a picture."
    )
    filter: Annotated[PictureFilter | None, WrapValidator(_filter_from_json)] = Field(
        None, description="The filter of POST /search/text as JSON text."
    )
