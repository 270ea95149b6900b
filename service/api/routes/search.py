"""Search with words or with a picture.

A cached answer is sent again; otherwise the query runs in a thread that takes turns on the accelerator. A light search
for a sentence does all of that in one step in one thread.
"""

import asyncio
import time
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from service.api.answers import AcceleratedWork, Answered, Asked, Begun, kept_or_begun, light_text_answer, new_answer
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
from service.search.query import OpenQuery
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
    asked = Asked(body, TextAnswer, {"search": "text"}, time.perf_counter())
    try:
        admission = services.accelerator.admit(services.search.costs.expected(body))
    except Overloaded:
        answer = await look_up(services, kept_or_begun, services, asked)
        if isinstance(answer, Begun):
            raise
        return responded(services, answer)
    with admission:
        running = services.threads.first.submit(light_text_answer, services, asked, admission)
        answer = await cancel_on_disconnect(request, asyncio.wrap_future(running))
    if isinstance(answer, Begun):
        answer = await finished(services, request, answer)
    return responded(services, answer)


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
        asked = Asked(body, ImageAnswer, {"search": "image", "sha256": picture and picture.sha256}, started)
        answer = await look_up(services, kept_or_begun, services, asked)
        if isinstance(answer, Begun):
            answer = await finished(services, request, answer, picture)
        return responded(services, answer)


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


async def finished(services: Services, request: Request, begun: Begun, picture: UploadedFile | None = None) -> Answered:
    """The answer of a search that has begun, with the uploaded `picture` if there is one; cancelled when the client
    hangs up.

    Raises what `load_at_first_use` and `decoded_picture` do, Overloaded where the accelerator has too much to do.
    """
    query, costs = begun.query, services.search.costs
    loading = await load_at_first_use(request, services, query)
    cost = begun.cost
    if cost is None:
        cost = await look_up(services, costs.of if picture is None else costs.of_upload, query)
    services.accelerator.check(cost)  # before a decoder works for a request that is then refused
    work = await search_work(services, request, query, picture)
    with services.accelerator.admit(cost) as admission:
        threads = services.threads.light if services.is_light(query, admission.cost) else services.threads.search
        running = threads.submit(new_answer, services, begun, work, admission, loading)
        return await cancel_on_disconnect(request, asyncio.wrap_future(running))


async def search_work(
    services: Services, request: Request, query: OpenQuery[Any], picture: UploadedFile | None
) -> AcceleratedWork:
    """The search to run; an upload is decoded first."""
    if picture is not None:
        decoded = await cancel_on_disconnect(request, decoded_picture(services, picture.path))
        return partial(services.search.uploaded, query, decoded.picture, (decoded.width, decoded.height))
    if isinstance(query.request, TextSearchRequest):
        return partial(services.search.text, query)
    return partial(services.search.like_stored, query, query.request.image_id)


def responded(services: Services, answer: Answered) -> Response:
    """The answer as a response; the times of its stages are recorded."""
    services.metrics.stage_times(answer.stages)
    note_stages(answer.stages)
    return Response(answer.content, media_type="application/json")
