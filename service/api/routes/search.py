"""Search with words or with a picture.

Every search takes three steps: an answer that was kept is given again; otherwise the query is run, in a thread of its
own that borrows the accelerator; the result is written and kept.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from service.api.cache import cache_key
from service.api.dependencies import ServicesDep, cancel_on_disconnect, load_at_first_use, uploaded_form
from service.api.openapi import IMAGE_FORM
from service.api.problems import invalid_request, problem_responses
from service.api.schemas.requests import ImageSearchForm
from service.api.schemas.results import AnyAnswer, ImageAnswer, TextAnswer
from service.api.services import Services
from service.api.tracing import note_stages
from service.errors import (
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
from service.media.decode_pool import DecodeFailed
from service.search.engine import Accelerate, Query, SearchEngine, origin
from service.search.requests import ImageSearchRequest, TextSearchRequest

router = APIRouter(tags=["search"])
T = TypeVar("T")

IMAGE_PATH = "/search/image"
FORM_BYTES = 2**20  # room for the fields and boundaries around the one picture


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
    started = time.perf_counter()
    query, cost = await look_up(services, begun, services.search, body)
    key = answer_key(services, query, {"search": "text"})
    if (kept := await kept_answer(services, key, TextAnswer, query, started)) is not None:
        return kept
    loading = await load_at_first_use(request, services, query)
    cost = await look_up(services, services.search.cost, query) if cost is None else cost
    work = partial(services.search.text, query)
    content = await run(services, request, query, cost, work, TextAnswer, started, loading)
    return await respond(services, key, content)


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
    async with uploaded_form(request, services, limits) as form:
        body, picture = image_request(form)
        query = await look_up(services, services.search.begin, body)
        key = answer_key(services, query, {"search": "image", "sha256": picture and picture.sha256})
        if (kept := await kept_answer(services, key, ImageAnswer, query, started)) is not None:
            return kept
        work = await cancel_on_disconnect(request, image_work(services, query, picture))
        loading = await load_at_first_use(request, services, query)
        cost = await look_up(services, services.search.cost, query, picture is not None)
        content = await run(services, request, query, cost, work, ImageAnswer, started, loading)
        return await respond(services, key, content)


def image_request(form: MultipartForm) -> tuple[ImageSearchRequest, UploadedFile | None]:
    """The fields, and the picture unless a stored one is asked with. InvalidRequest, TooLarge."""
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


async def image_work(services: Services, query: Query[ImageSearchRequest], picture: UploadedFile | None) -> Any:
    """The search to run: for a stored picture, or for an upload, which is decoded here. UnreadablePicture."""
    if picture is None:
        assert query.request.image_id is not None
        return partial(services.search.like_stored, query, query.request.image_id)
    try:
        decoded = await asyncio.wrap_future(services.pool.submit(picture.path))
    except DecodeFailed as fault:
        raise UnreadablePicture(fault.reason) from fault
    return partial(services.search.uploaded, query, decoded.picture, (decoded.width, decoded.height))


def answer_key(services: Services, query: Query[Any], asked: Mapping[str, Any]) -> str | None:
    """The key that the answer is kept under; None where none is kept, so that no shard's version is waited for."""
    return cache_key({**asked, **determining(query)}) if services.cache.keeps_any else None


def determining(query: Query[Any]) -> dict[str, Any]:
    """Everything an answer depends on."""
    return {
        **query.request.model_dump(mode="json"),
        "model": query.model.name,
        "digest": query.model.header.digest,
        "index_version": query.index_version,
    }


async def look_up(services: Services, work: Callable[..., T], *arguments: Any) -> T:
    """The result of a short piece of work, in threads that neither uploads nor running searches hold."""
    return await asyncio.get_running_loop().run_in_executor(services.lookup_threads, partial(work, *arguments))


async def kept_answer(
    services: Services, key: str | None, schema: type[AnyAnswer], query: Query[Any], started: float
) -> Response | None:
    """The answer that was kept under the key, marked so, with the time that finding it took.

    None where there is none, or it is no answer of this form to this query.
    """
    kept = None if key is None else await services.cache.get(key)
    answer = None if kept is None else await look_up(services, answer_from, kept, schema, query)
    services.metrics.cache.labels("miss" if answer is None else "hit").inc()
    if answer is None:
        return None
    stages = answer.timings_ms.model_dump(exclude={"load"})
    timings = {**dict.fromkeys(stages, 0.0), "total": milliseconds_since(started)}
    marked = answer.model_copy(update={"cached": True, "timings_ms": type(answer.timings_ms)(**timings)})
    return Response(marked.model_dump_json().encode(), media_type="application/json")


def answer_from(kept: bytes, schema: type[AnyAnswer], query: Query[Any]) -> AnyAnswer | None:
    """The kept answer, if it is one of this form to this query."""
    try:
        answer = schema.model_validate_json(kept)
    except ValidationError:
        return None
    said = {**origin(query), **query.request.model_dump(include={"query", "match", "target"})}
    is_own = all(getattr(answer, name) == value for name, value in said.items())
    return answer if is_own and len(answer.results) <= query.request.k else None


def begun(search: SearchEngine, body: TextSearchRequest) -> tuple[Query[TextSearchRequest], int | None]:
    """A query, and its cost unless its model is to be loaded first; what SearchEngine's `begin` and `cost` raise."""
    query = search.begin(body)
    return query, None if query.awaits_model else search.cost(query)


async def run(
    services: Services,
    request: Request,
    query: Query[Any],
    cost: int,
    work: Any,
    schema: type[AnyAnswer],
    started: float,
    before: Mapping[str, float],
) -> bytes:
    """The result of `work(accelerate=..)` as JSON, as long as the caller waits for it. Overloaded.

    `before` are the milliseconds of stages that came before it.
    """

    def answer(accelerate: Accelerate) -> tuple[dict[str, float], bytes]:
        result = work(accelerate=accelerate)
        stages = {**before, **result.timings_ms}
        timings = {**stages, "total": milliseconds_since(started)}
        answer = schema.model_validate({**vars(result), "timings_ms": timings}, from_attributes=True)
        return stages, answer.model_dump_json().encode()

    with services.accelerator.admit(cost) as admission:
        running = services.threads_for(query, cost).submit(answer, admission.run)
        timings, content = await cancel_on_disconnect(request, asyncio.wrap_future(running))
    services.metrics.stage_times(timings)
    note_stages(timings)
    return content


async def respond(services: Services, key: str | None, content: bytes) -> Response:
    """An answer, kept for the next who asks the same."""
    if key is not None:
        await services.cache.put(key, content)
    return Response(content, media_type="application/json")


def milliseconds_since(started: float) -> float:
    """Since a reading of time.perf_counter."""
    return (time.perf_counter() - started) * 1000
