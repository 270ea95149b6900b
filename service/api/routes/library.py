"""Lists of what is stored: pictures page by page, and the tags in use."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import TypeAdapter, ValidationError

from index.catalog.filters import Filter
from index.catalog.list_orders import UnknownPlace
from index.records import ImageOrder
from service.api.access.credentials import Caller
from service.api.access.permissions import LISTS_DELETED
from service.api.dependencies import ServicesDep
from service.api.page_cursors import LONGEST_CURSOR, cursor_after, place_of
from service.api.problems import invalid_request, problem_responses
from service.api.schemas.requests import FilterText
from service.api.schemas.resources import DatesAnswer, ImagesAnswer, MonthListed, TagListed, TagsAnswer, TagValue
from service.api.serializers import image_listed
from service.api.services import Services
from service.errors import InvalidRequest, Problem
from service.search.requests import PictureFilter

router = APIRouter(tags=["pictures"])

MAX_VALUES = 100  # listed of each tag
MAX_TEXT = 512
FILTER: TypeAdapter[PictureFilter | None] = TypeAdapter(FilterText)
LONGEST_FILTER = 2**15  # a longer one would exceed the bound on the request head


@router.get(
    "/images", operation_id="list_images", summary="List pictures", responses=problem_responses(InvalidRequest, Problem)
)
def list_images(
    request: Request,
    services: ServicesDep,
    after: Annotated[str | None, Query(description="The `next` of the page before.", max_length=LONGEST_CURSOR)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    sort: Annotated[
        ImageOrder,
        Query(description="`latest`: what came last first; `date`: the newest photograph first, undated ones last."),
    ] = "arrival",
    filter: Annotated[
        str | None, Query(description="The filter of POST /search/text, as JSON text.", max_length=LONGEST_FILTER)
    ] = None,
    deleted: Annotated[
        bool,
        Query(
            description="Those that were deleted and can still be brought back, in the place of the others: for keys"
            " that may `write`."
        ),
    ] = False,
) -> ImagesAnswer:
    """Pictures in order of arrival unless another is asked for: those that are not deleted, or those that are."""
    condition = compiled_filter(filter)
    if deleted:
        _check_lists_deleted(request.scope["caller"], services)
        condition = replace(condition, deleted_since=services.clock() - services.settings.delete_grace_s)
    try:
        place = None if after is None else place_of(after)
    except ValueError as fault:
        raise InvalidRequest.field("after", str(fault)) from fault
    try:
        images = services.collection.pictures.page(place, limit + 1, condition, sort)
        counts = services.collection.pictures.count_listed(condition) if place is None else None
    except UnknownPlace as fault:
        raise InvalidRequest.field("after", str(fault)) from fault
    more = len(images) > limit
    page = images[:limit]
    return ImagesAnswer(
        images=[image_listed(image) for image in page],
        next=cursor_after(page[-1], sort) if more else None,
        total=None if counts is None else sum(counts.values()),
        queued=None if counts is None else counts.get("queued", 0),
    )


def _check_lists_deleted(caller: Caller, services: Services) -> None:
    """Forbidden for a caller who may not see deleted pictures."""
    if (refusal := caller.refusal(LISTS_DELETED)) is not None:
        services.metrics.refusals.labels(refusal.kind).inc()
        raise refusal


@router.get(
    "/tags", operation_id="list_tags", summary="Tags in use", responses=problem_responses(InvalidRequest, Problem)
)
def list_tags(
    services: ServicesDep,
    search: Annotated[
        str, Query(description="Only values that hold this text, and those of names that do.", max_length=MAX_TEXT)
    ] = "",
    after: Annotated[str, Query(description="The `next` of the page before.", max_length=MAX_TEXT)] = "",
    limit: Annotated[int, Query(ge=1, le=1000, description="How many names at most.")] = 100,
    values: Annotated[int, Query(ge=1, le=MAX_VALUES, description="How many values of each at most.")] = MAX_VALUES,
) -> TagsAnswer:
    """Names in their order, with their most frequent values, for building filters."""
    uses = services.collection.pictures.tags(limit + 1, values, search, after)
    tags = [
        TagListed(
            name=tag.name,
            pictures=tag.num_pictures,
            distinct_values=tag.num_values,
            values=[TagValue(value=value, pictures=count) for value, count in tag.values],
        )
        for tag in uses[:limit]
    ]
    return TagsAnswer(tags=tags, next=tags[-1].name if len(uses) > limit else None)


@router.get("/dates", operation_id="list_dates", summary="Months of pictures", responses=problem_responses(Problem))
def list_dates(services: ServicesDep) -> DatesAnswer:
    """Months in which pictures were taken, with their numbers, for browsing by time."""
    counts = services.collection.pictures.months()
    months = [MonthListed(month=month, pictures=counts[month]) for month in sorted(counts, reverse=True) if month]
    return DatesAnswer(months=months, undated=counts.get("", 0))


def compiled_filter(text: str | None) -> Filter:
    """The filter in a JSON text; None stands for a filter that everything passes. Raises InvalidRequest for any other
    text."""
    try:
        condition = FILTER.validate_python(text)
    except ValidationError as fault:
        raise invalid_request([{**error, "loc": ("filter", *error["loc"])} for error in fault.errors()]) from fault
    return Filter() if condition is None else condition.compiled()
