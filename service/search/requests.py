"""Requests of searches: one model a kind of search, checked and described by pydantic.

The same objects are the bodies of HTTP requests and what `SearchEngine` takes.
"""

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

from index.filters import Filter
from service.errors import InvalidRequest

LONGEST_QUERY = 512


class RequestModel(BaseModel):
    """Part of a request: unknown fields are refused, since they are mostly misspelt ones."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def _with_message(message: str) -> Callable[[Any, ValidatorFunctionWrapHandler], Any]:
    """A validator that answers with one message where pydantic would list every branch of a union."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as fault:
            raise PydanticCustomError("no_condition", message) from fault

    return validate


Value = StrictStr | StrictInt | StrictFloat


class Range(RequestModel):
    """From `gte` to `lte`, both included; one of them may be left out."""

    gte: Value | None = None
    lte: Value | None = None

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.gte is None and self.lte is None:
            raise ValueError("give gte, lte or both")
        return self


class Period(RequestModel):
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
        _with_message('give a string, a number, a list of these, or a range such as {{"gte": 2020, "lte": 2024}}')
    ),
]


class PictureFilter(RequestModel):
    """Which pictures may answer; applied before the shortlist is made, so nothing better is lost."""

    tags: dict[str, Condition] = Field(default_factory=dict, max_length=50)
    taken_at: Period | None = None

    def compiled(self) -> Filter:
        """The filter as the catalog takes it; InvalidRequest where it makes no sense."""
        tags = {
            name: condition.model_dump(exclude_none=True) if isinstance(condition, Range) else condition
            for name, condition in self.tags.items()
        }
        taken_at = None
        if self.taken_at is not None:
            ends = {"gte": self.taken_at.gte, "lte": self.taken_at.lte}
            taken_at = {end: time.timestamp() for end, time in ends.items() if time is not None}
        try:
            return Filter(tags=tags, taken_at=taken_at)
        except ValueError as fault:
            raise InvalidRequest.field("filter", str(fault)) from fault


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


QueryText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_QUERY),
    WrapValidator(_query),
]
ImageId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{32}$")]


class SearchRequest(RequestModel):
    """Fields that every search takes."""

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
    filter: PictureFilter | None = None

    @field_validator("shortlist")
    @classmethod
    def _at_least_k(cls, shortlist: int, info: ValidationInfo) -> int:
        if shortlist < info.data.get("k", 1):
            raise ValueError(f"must be at least k, which is {info.data['k']}")
        return shortlist


class TextSearchRequest(SearchRequest):
    """Which pictures show what a sentence says?"""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "a dog catches a frisbee", "k": 5, "explain": True},
                {"query": "children on a beach", "sort": "date", "filter": {"tags": {"year": {"gte": 2020}}}},
            ]
        }
    )

    query: QueryText
    sort: Literal["relevance", "date"] = Field(
        "relevance", description="`date`: the best k, then newest first; undated pictures last."
    )


class ImageSearchRequest(SearchRequest):
    """Which captions describe a picture, or which pictures look like it?"""

    target: Literal["captions", "images"] = Field("captions", description="What is looked for.")
    image_id: ImageId | None = Field(None, description="A stored picture to ask with, instead of uploading one.")

    @model_validator(mode="after")
    def _nothing_of_captions_for_pictures(self) -> Self:
        if self.target == "images" and self.explain:
            raise InvalidRequest.field("explain", "pictures like a picture go by cosine, there is nothing to explain")
        if self.target == "images" and self.min_probability is not None:
            raise InvalidRequest.field(
                "min_probability", "pictures like a picture go by cosine, which is no probability; use min_score"
            )
        return self
