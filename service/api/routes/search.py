"""Search with words or with a picture.

An answer that was kept is given again; otherwise the query is run, in a thread of its own that borrows the accelerator.
A light search for a sentence does all of it in one go in one thread.
"""

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from service.api.admission.accelerator import Admission
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
SMALL_FORM_BYTES = 2**16  # of one that asks with a stored picture, which searches go on with on a disk that is full


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

    Pictures whose file name, captions, tags and date hold every word of the query join it, by reciprocal rank.
    """
    asked = Asked(body, TextAnswer, {"search": "text"}, time.perf_counter())
    try:
        admission = services.accelerator.admit(services.search.costs.expected(body))
    except Overloaded:
        found = await look_up(services, kept_or_begun, services, asked)
        if isinstance(found, Begun):
            raise
        return responded(services, found)
    with admission:
        running = services.threads.first.submit(light_text_answer, services, asked, admission)
        found = await cancel_on_disconnect(request, asyncio.wrap_future(running))
    if isinstance(found, Begun):
        loading = await load_at_first_use(request, services, found.query)
        work, cost = partial(services.search.text, found.query), found.cost
        if cost is None:
            cost = await look_up(services, services.search.costs.of, found.query)
        with services.accelerator.admit(cost) as admission:
            found = await finished(services, request, found, admission, work, loading)
    return responded(services, found)


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
        found = await look_up(services, kept_or_begun, services, asked)
        if isinstance(found, Begun):
            loading = await load_at_first_use(request, services, found.query)
            cost_of = services.search.costs.of if picture is None else services.search.costs.of_upload
            cost = await look_up(services, cost_of, found.query)
            services.accelerator.check(cost)  # before a decoder is kept busy for what is refused then
            work = await cancel_on_disconnect(request, image_work(services, found.query, picture))
            with services.accelerator.admit(cost) as admission:
                found = await finished(services, request, found, admission, work, loading)
        return responded(services, found)


def image_request(form: MultipartForm) -> tuple[ImageSearchRequest, UploadedFile | None]:
    """The fields, and the picture unless a stored one is asked with. Raises InvalidRequest for fields that do not go
    together, TooLarge for too large a picture."""
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


async def image_work(services: Services, query: OpenQuery[ImageSearchRequest], picture: UploadedFile | None) -> Any:
    """The search to run: for a stored picture, or for an upload, which is decoded here.

    Raises UnreadablePicture where it cannot be decoded, Overloaded where too many wait for that.
    """
    if picture is None:
        assert query.request.image_id is not None
        return partial(services.search.like_stored, query, query.request.image_id)
    decoded = await decoded_picture(services, picture.path)
    return partial(services.search.uploaded, query, decoded.picture, (decoded.width, decoded.height))


async def finished(
    services: Services,
    request: Request,
    begun: Begun,
    admission: Admission,
    work: AcceleratedWork,
    before: Mapping[str, float],
) -> Answered:
    """The answer of a search that has begun, as long as the caller waits for it.

    `before` are the milliseconds of stages that came before it.
    """
    threads = services.threads.light if services.is_light(begun.query, admission.cost) else services.threads.search
    running = threads.submit(new_answer, services, begun, work, admission, before)
    return await cancel_on_disconnect(request, asyncio.wrap_future(running))


def responded(services: Services, answer: Answered) -> Response:
    """The answer as a response; what its stages took is noted."""
    services.metrics.stage_times(answer.stages)
    note_stages(answer.stages)
    return Response(answer.content, media_type="application/json")
