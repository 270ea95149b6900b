"""Search requests: one pydantic model for each kind of search.

They are both the bodies of HTTP requests and the arguments of `SearchEngine`.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self
from unicodedata import normalize

from pydantic import (
    AfterValidator,
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

from index.catalog.filters import Filter, as_number
from service.dates import check_date, date_span
from service.errors import InvalidRequest

LONGEST_QUERY = 512
MOST_RESULTS = 1000
MOST_EXPLAINED = 100  # each takes ten kilobytes of an answer
Match = Literal["pictures", "text", "both"]


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


def _check_unicode(text: str) -> str:
    """The text; ValueError for half a surrogate pair, which JSON can write and nothing can store."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("holds half a surrogate pair (such as \\ud800), which is no character")
    return text


Text = Annotated[StrictStr, AfterValidator(_check_unicode)]
Value = Text | StrictInt | StrictFloat


class Range(RequestModel):
    """The values from `gte` to `lte`, both included; one of them may be left out."""

    gte: Value | None = None
    lte: Value | None = None

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.gte is None and self.lte is None:
            raise ValueError("give gte, lte or both")
        return self

    @property
    def is_empty(self) -> bool:
        """Whether the range is empty. Texts are compared as texts and, if both are written as numbers, as numbers."""
        if isinstance(self.gte, str) and isinstance(self.lte, str):
            first, last = as_number(self.gte), as_number(self.lte)
            return self.gte > self.lte and (first is None or last is None or first > last)
        if isinstance(self.gte, int | float) and isinstance(self.lte, int | float):
            return self.gte > self.lte
        return False


def _date(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """A date as text; a number is refused, since 2024 might be a year or seconds."""
    _refuse_number(value)
    return handler(value)


def _refuse_number(value: Any) -> None:
    if isinstance(value, int | float):
        raise PydanticCustomError("date", 'write dates as text: "2024" is the year')


Date = Annotated[StrictStr, AfterValidator(check_date), WrapValidator(_date)]


class Period(RequestModel):
    """The time from `gte` to `lte`, both included: years, months or days, or RFC 3339 times with an offset."""

    gte: Date | None = Field(None, description="`2024` is from the first second of the year.")
    lte: Date | None = Field(None, description="`2024` is to the last second of the year.")

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.gte is None and self.lte is None:
            raise ValueError("give gte, lte or both")
        if self.gte is not None and self.lte is not None and date_span(self.gte)[0] > date_span(self.lte)[1]:
            raise ValueError(f"no time is from {self.gte} on and until {self.lte}")
        return self

    def seconds(self) -> dict[str, float]:
        """The ends that are given, in unix seconds."""
        first = {} if self.gte is None else {"gte": date_span(self.gte)[0]}
        return first if self.lte is None else {**first, "lte": date_span(self.lte)[1]}


def _period(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """A single date stands for the whole period, and an error in it is reported once."""
    _refuse_number(value)
    if isinstance(value, str):
        check_date(value)
        return handler({"gte": value, "lte": value})
    return handler(value)


Condition = Annotated[
    Value | Annotated[list[Value], Field(min_length=1, max_length=1000)] | Range,
    WrapValidator(
        _with_message(
            'give a string, a number, a list of 1 to 1000 of these, or a range such as {"gte": 2020, "lte": 2024}'
        )
    ),
]


class PictureFilter(RequestModel):
    """Conditions on the pictures that may answer; applied before the shortlist is made, so nothing better is lost."""

    tags: dict[Text, Condition] = Field(default_factory=dict, max_length=50)
    taken_at: Annotated[Period, WrapValidator(_period, json_schema_input_type=Period | Date)] | None = Field(
        None, description="A period; a date alone, such as `2024-05`, stands for all of it."
    )

    def compiled(self) -> Filter:
        """The filter as the catalog takes it; InvalidRequest where it makes no sense."""
        for name, condition in self.tags.items():
            if isinstance(condition, Range) and condition.is_empty:
                raise InvalidRequest.field(
                    f"filter.tags.{name}", f"nothing is at least {condition.gte} and at most {condition.lte}"
                )
        tags = {
            name: condition.model_dump(exclude_none=True) if isinstance(condition, Range) else condition
            for name, condition in self.tags.items()
        }
        taken_at = None if self.taken_at is None else self.taken_at.seconds()
        try:
            return Filter(tags=tags, taken_at=taken_at)
        except ValueError as fault:
            raise InvalidRequest.field("filter", str(fault)) from fault


def _query(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """A question as it was written. Its length is counted in NFKC, as it is read: "\ufdfa" stands for 18 letters."""
    if isinstance(value, str):
        question = value.strip()
        length = len(question)
        problem = f"has {length} characters" if question else "is blank"
        if 1 <= length <= LONGEST_QUERY:  # a longer one is not normalized, which would take long
            length = len(normalize("NFKC", question))
            problem = f"stands for {length} characters"
        if not 1 <= length <= LONGEST_QUERY:
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
Order = Literal["relevance", "date"]
ImageId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{32}$")]


SHORTLIST_DESCRIPTION = (
    "How many candidates stage one hands to the reranker; at least k. If not given, 100, or k where that is more."
)


def _without_default(schema: dict[str, Any]) -> None:
    """Drop the documented default of a field, which clients that send every default would send."""
    schema.pop("default")


class SearchRequest(RequestModel):
    """Fields that every search takes."""

    model_config = ConfigDict(strict=True)  # "10" is no number, and 1 is not true

    k: int = Field(10, ge=1, le=MOST_RESULTS, description="How many results at most.")
    shortlist: int = Field(
        100, ge=1, le=MOST_RESULTS, description=SHORTLIST_DESCRIPTION, json_schema_extra=_without_default
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
    group_near_duplicates: bool = Field(
        False,
        description="Show pictures that look the same, such as shots of one moment, as one result that names them.",
    )
    filter: PictureFilter | None = None
    partial: bool = Field(
        True,
        description="Of a collection on several machines: answer from those that are there, and say so in `shards`;"
        " `false` for 503 instead.",
    )

    @property
    def needs_model(self) -> bool:
        """Whether a model is used, and not the pictures' text alone."""
        return True

    @field_validator("shortlist")
    @classmethod
    def _at_least_k(cls, shortlist: int, info: ValidationInfo) -> int:
        if shortlist < info.data.get("k", 1):
            raise ValueError(f"must be at least k, which is {info.data['k']}")
        return shortlist

    @model_validator(mode="after")
    def _shortlist_of_all_results(self) -> Self:
        if "shortlist" not in self.model_fields_set:
            self.shortlist = max(self.shortlist, self.k)
        return self

    @model_validator(mode="after")
    def _explains_few(self) -> Self:
        if self.explain and self.k > MOST_EXPLAINED:
            raise InvalidRequest.field(
                "explain", f"at most {MOST_EXPLAINED} results are explained at once: ask for k={MOST_EXPLAINED} or less"
            )
        return self


class TextSearchRequest(SearchRequest):
    """A search for the pictures that show what a sentence says."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "a dog catches a frisbee", "k": 5, "explain": True},
                {"query": "children on a beach", "sort": "date", "filter": {"tags": {"year": {"gte": 2020}}}},
            ]
        }
    )

    query: QueryText
    match: Match = Field(
        "both",
        description="What is looked at: `pictures` alone, ranked by the model; `text`, which is file names, captions,"
        " tags and dates that hold every word of the query; or `both`, in one list.",
    )
    sort: Order = Field("relevance", description="`date`: the best k, then newest first; undated pictures last.")

    @property
    def needs_model(self) -> bool:
        return self.match != "text"


class ImageSearchRequest(SearchRequest):
    """A search for the captions that describe a picture, or for the pictures that look like it."""

    target: Literal["captions", "images"] = Field("captions", description="What is looked for.")
    query: QueryText | None = Field(
        None, description="With target=images: what the pictures should show besides, in words."
    )
    image_id: ImageId | None = Field(None, description="A stored picture to ask with, instead of uploading one.")
    sort: Order = Field("relevance", description="As of a search with a sentence; for target=images.")

    @model_validator(mode="after")
    def _nothing_of_captions_for_pictures(self) -> Self:
        if self.target == "captions" and self.group_near_duplicates:
            raise InvalidRequest.field("group_near_duplicates", "captions are no pictures; use target=images")
        if self.target == "captions" and self.sort == "date":
            raise InvalidRequest.field("sort", "captions have no date; use target=images")
        if self.target == "captions" and self.query is not None:
            raise InvalidRequest.field("query", "captions are found by the picture alone; use target=images")
        if self.target == "images" and self.explain:
            raise InvalidRequest.field("explain", "pictures go by stage one: only target=captions is explained")
        if self.target == "images" and self.min_probability is not None:
            raise InvalidRequest.field(
                "min_probability",
                "pictures like a picture go by stage one, whose scores are no probabilities; use min_score",
            )
        return self
