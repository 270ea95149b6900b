"""Search with words or with a picture.

A cached answer is sent again; otherwise the query runs in a thread that takes turns on the accelerator. A light search
for a sentence does all of that in one step in one thread.
"""

import asyncio
import time

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from service.api.answers import PendingSearch, SerializedAnswer
from service.api.dependencies import (
    ServicesDep,
    cancel_on_disconnect,
    decoded_picture,
    load_at_first_use,
    look_up,
    uploaded_form,
)
from service.api.openapi.document import IMAGE_FORM
from service.api.problems import invalid_request, problem_responses
from service.api.schemas.requests import ImageSearchForm
from service.api.schemas.results import ImageAnswer, TextAnswer
from service.api.services import Services
from service.api.tracing import note_stages
from service.errors import (
    DiskFull,
    FeaturesOnly,
    InvalidRequest,
    ModelNotLoaded,
    NotFound,
    NotReady,
    Overloaded,
    Problem,
    TooLarge,
    UnknownModel,
    UnreadablePicture,
    ViewNotBuilt,
)
from service.ingest.multipart import FormLimits, MultipartForm, UploadedFile
from service.search.requests import ImageSearchRequest, TextSearchRequest

router = APIRouter(tags=["search"])

IMAGE_PATH = "/search/image"
FORM_BYTES = 2**20  # room for the fields and boundaries around the one picture
SMALL_FORM_BYTES = 2**16  # of a search with a stored picture, which works even on a full disk


@router.post(
    "/search/text",
    operation_id="search_text",
    summary="Pictures for a sentence",
    response_model=TextAnswer,
    responses=problem_responses(
        InvalidRequest, UnknownModel, ViewNotBuilt, TooLarge, NotReady, Overloaded, ModelNotLoaded, Problem
    ),
)
async def search_text(body: TextSearchRequest, request: Request, services: ServicesDep) -> Response:
    """Stage one makes a shortlist by embeddings, stage two reranks it by cross-attention.

    Pictures whose file name, captions, tags and date hold every word of the query are fused in by reciprocal rank.
    """
    search = PendingSearch(services, body, time.perf_counter())
    try:
        admission = services.capacity.accelerator.admit(services.collection.search.costs.expected(body))
    except Overloaded:
        if (cached := await look_up(services, search.cached)) is None:
            raise
        return responded(services, cached)
    with admission:
        running = services.capacity.threads.first.submit(search.cached_or_light, admission)
        answer = await cancel_on_disconnect(request, asyncio.wrap_future(running))
    return responded(services, answer or await new_answer(services, request, search))


@router.post(
    IMAGE_PATH,
    operation_id="search_image",
    summary="Captions for a picture, or pictures like it",
    response_model=ImageAnswer,
    openapi_extra=IMAGE_FORM,
    responses=problem_responses(
        InvalidRequest,
        UnreadablePicture,
        NotFound,
        UnknownModel,
        ViewNotBuilt,
        FeaturesOnly,
        TooLarge,
        NotReady,
        Overloaded,
        ModelNotLoaded,
        DiskFull,
        Problem,
    ),
)
async def search_image(request: Request, services: ServicesDep) -> Response:
    """Ask with an uploaded picture or a stored one; captions are reranked, pictures go by cosine."""
    started = time.perf_counter()
    limits = FormLimits(
        max_file_bytes=services.settings.max_file_bytes,
        max_body_bytes=services.settings.max_file_bytes + FORM_BYTES,
        max_files=1,
        max_field_bytes=FORM_BYTES,
    )
    async with uploaded_form(request, services, limits, exempt_bytes=SMALL_FORM_BYTES) as form:
        body, picture = image_request(form)
        search = PendingSearch(services, body, started, picture)
        cached = await look_up(services, search.cached)
        return responded(services, cached or await new_answer(services, request, search))


def image_request(form: MultipartForm) -> tuple[ImageSearchRequest, UploadedFile | None]:
    """The fields, and the picture unless it is a stored one. Raises InvalidRequest for fields that do not go together,
    TooLarge for too large a picture."""
    form.require_file("image")
    try:
        body = ImageSearchForm.model_validate(form.fields)
    except ValidationError as fault:
        raise invalid_request(fault.errors()) from fault
    wrong = [file.field for file in form.files if file.field != "image"]
    if wrong:
        raise InvalidRequest.field(wrong[0], "is not a field of this request; the picture goes into `image`")
    if len(form.files) + (body.image_id is not None) != 1:
        raise InvalidRequest.field("image", "give either a picture or an image_id")
    if not form.files:
        return body, None
    picture = form.files[0]
    if picture.problem is not None:
        raise TooLarge(picture.problem)
    return body, picture


async def new_answer(services: Services, request: Request, search: PendingSearch) -> SerializedAnswer:
    """The answer to a search that is not cached; cancelled when the client hangs up.

    Raises what `load_at_first_use` and `decoded_picture` do, Overloaded where the accelerator has too much to do.
    """
    loading = await load_at_first_use(request, services, search.query)
    cost = search.cost() if search.has_cost else await look_up(services, search.cost)
    capacity = services.capacity
    capacity.accelerator.check(cost)  # before a decoder works for a request that is then refused
    picture = None
    if search.upload is not None:
        picture = await cancel_on_disconnect(request, decoded_picture(services, search.upload.path))
    with capacity.accelerator.admit(cost) as admission:
        threads = capacity.threads.light if capacity.is_light(search.query, cost) else capacity.threads.search
        running = threads.submit(search.run, admission, loading, picture)
        return await cancel_on_disconnect(request, asyncio.wrap_future(running))


def responded(services: Services, answer: SerializedAnswer) -> Response:
    """The answer as a response; the times of its stages are recorded."""
    services.metrics.stage_times(answer.stages)
    note_stages(answer.stages)
    return Response(answer.content, media_type="application/json")
