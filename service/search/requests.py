"""What is asked over HTTP: the bodies of requests, checked and described by pydantic."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

LONGEST_QUERY = 512


class Asked(BaseModel):
    """A request: unknown fields are refused, since they are mostly misspelt ones."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def _in_words(message: str) -> Callable[[Any, ValidatorFunctionWrapHandler], Any]:
    """A validator that answers with one message where pydantic would list every branch of a union."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as fault:
            raise PydanticCustomError("in_words", message) from fault

    return validate


Value = StrictStr | StrictInt | StrictFloat


class Range(Asked):
    """From `gte` to `lte`, both included; one of them may be left out."""

    gte: Value | None = None
    lte: Value | None = None

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.gte is None and self.lte is None:
            raise ValueError("give gte, lte or both")
        return self


class Period(Asked):
    """From `gte` to `lte`, both included, as RFC 3339 times with an offset."""

    gte: AwareDatetime | None = None
    lte: AwareDatetime | None = None

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.gte is None and self.lte is None:
            raise ValueError("give gte, lte or both")
        return self


Condition = Annotated[
    Value | Annotated[list[Value], Field(min_length=1, max_length=1000)] | Range,
    WrapValidator(
        _in_words('give a string, a number, a list of these, or a range such as {{"gte": 2020, "lte": 2024}}')
    ),
]


class FilterAsked(Asked):
    """Which pictures may answer; applied before the shortlist is made, so nothing better is lost."""

    tags: dict[str, Condition] = Field(default_factory=dict, max_length=50)
    taken_at: Period | None = None


def _query(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(value, str):
        length = len(value.strip())
        if not 1 <= length <= LONGEST_QUERY:
            problem = "is blank" if length == 0 else f"has {length} characters"
            raise PydanticCustomError(
                "query_length",
                "{problem}; write what the picture shows, in 1 to {longest} characters",
                {"problem": problem, "longest": LONGEST_QUERY},
            )
    return handler(value)


Query = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_QUERY),
    WrapValidator(_query),
]
ImageId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{32}$")]


class SearchAsked(Asked):
    """What every search takes."""

    k: int = Field(10, ge=1, le=100, description="How many results at most.")
    shortlist: int = Field(
        100, ge=1, le=1000, description="How many candidates stage one hands to the reranker; at least k."
    )
    model: str | None = Field(None, max_length=200, description="A model of GET /models; null for the default.")
    explain: bool = Field(False, description="Add which region answered which word.")
    min_score: float | None = Field(None, description="Leave out results whose raw score is lower.")
    min_probability: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Leave out results that are less probable; refused where the model has no calibration.",
    )

    @field_validator("shortlist")
    @classmethod
    def _at_least_k(cls, shortlist: int, info: ValidationInfo) -> int:
        if shortlist < info.data.get("k", 1):
            raise ValueError(f"must be at least k, which is {info.data['k']}")
        return shortlist


class TextAsked(SearchAsked):
    """Which pictures show what a sentence says?"""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "a dog catches a frisbee", "k": 5, "explain": True},
                {"query": "children on a beach", "sort": "date", "filter": {"tags": {"year": {"gte": 2020}}}},
            ]
        }
    )

    query: Query
    sort: Literal["relevance", "date"] = Field(
        "relevance", description="`date`: the best k, then newest first; undated pictures last."
    )
    filter: FilterAsked | None = None


def _blank_is_none(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    return handler(None if value == "" else value)


def _filter_text(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    if value is None or value == "":
        return None
    try:
        return FilterAsked.model_validate_json(value) if isinstance(value, str) else handler(value)
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise PydanticCustomError(
            "filter", "{where}{message}", {"where": where and f"{where}: ", "message": first["msg"]}
        ) from fault


class ImageAsked(SearchAsked):
    """The form fields beside `image`: which captions describe a picture, or which pictures look like it?"""

    target: Literal["captions", "images"] = Field("captions", description="What is looked for.")
    image_id: Annotated[ImageId | None, WrapValidator(_blank_is_none)] = Field(
        None, description="A stored picture to ask with, instead of uploading one."
    )
    model: Annotated[str | None, WrapValidator(_blank_is_none)] = Field(
        None, max_length=200, description="A model of GET /models; empty for the default."
    )
    min_score: Annotated[float | None, WrapValidator(_blank_is_none)] = Field(
        None, description="Leave out results whose raw score is lower."
    )
    min_probability: Annotated[float | None, WrapValidator(_blank_is_none)] = Field(
        None, ge=0, le=1, description="Leave out captions that are less probable; not for pictures like a picture."
    )
    filter: Annotated[FilterAsked | None, WrapValidator(_filter_text)] = Field(
        None, description="The filter of POST /search/text as JSON text."
    )
