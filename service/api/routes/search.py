"""Search with words or with a picture."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ValidationError

from service.api.cache import cache_key
from service.api.dependencies import ServicesDep as Using
from service.api.dependencies import cancel_on_disconnect as while_connected
from service.api.dependencies import uploaded_form as uploaded
from service.api.openapi import IMAGE_FORM
from service.api.problems import invalid_request as invalid
from service.api.problems import problem_responses as problems
from service.api.schemas.requests import ImageAsked, SearchAsked, TextAsked
from service.api.schemas.results import ImageAnswer, ImageTimings, TextAnswer, Timings
from service.api.serializers import caption_hits, filter_of, picture_hits
from service.api.services import Services
from service.errors import (
    FeaturesOnly,
    InvalidRequest,
    NotFound,
    Overloaded,
    Problem,
    TooLarge,
    UnknownModel,
    UnreadablePicture,
    ViewNotBuilt,
)
from service.ingest.multipart import FormLimits
from service.ingest.multipart import MultipartForm as Form
from service.ingest.multipart import UploadedFile as SpooledFile
from service.media.decode_pool import DecodeFailed
from service.search.types import ImageQuestion, Outcome, TextQuestion

router = APIRouter(tags=["search"])

IMAGE_PATH = "/search/image"
FORM_BYTES = 2**20  # room for the fields and boundaries around the one picture


@router.post(
    "/search/text",
    operation_id="search_text",
    summary="Pictures for a sentence",
    response_model=TextAnswer,
    responses=problems(InvalidRequest, UnknownModel, ViewNotBuilt, TooLarge, Overloaded, Problem),
)
async def search_text(asked: TextAsked, request: Request, services: Using) -> Response:
    """Stage one makes a shortlist by embeddings, stage two reranks it by cross-attention."""
    refuse_improbable(asked, services)
    question = TextQuestion(
        text=asked.query,
        k=asked.k,
        shortlist=asked.shortlist,
        model=asked.model,
        explain=asked.explain,
        min_score=asked.min_score,
        min_probability=asked.min_probability,
        sort=asked.sort,
        filter=filter_of(asked.filter),
    )

    async def work() -> Outcome:
        cost = services.search.cost(asked.shortlist, len(asked.query.split()) + 2)
        return await services.batcher.submit(cost, partial(services.search.text, question))

    def body(outcome: Outcome, common: dict[str, Any], total: float) -> TextAnswer:
        return TextAnswer(
            **common,
            query=asked.query,
            unknown_words=list(outcome.unknown_words),
            results=picture_hits(outcome),
            timings_ms=Timings(**outcome.milliseconds, total=total),
        )

    determines = {"search": "text", **asked.model_dump(mode="json")}
    return await answered(request, services, question, determines, work, body)


@router.post(
    IMAGE_PATH,
    operation_id="search_image",
    summary="Captions for a picture, or pictures like it",
    response_model=ImageAnswer,
    openapi_extra=IMAGE_FORM,
    responses=problems(
        InvalidRequest,
        UnreadablePicture,
        NotFound,
        UnknownModel,
        ViewNotBuilt,
        FeaturesOnly,
        TooLarge,
        Overloaded,
        Problem,
    ),
)
async def search_image(request: Request, services: Using) -> Response:
    """Ask with an uploaded picture or a stored one; captions are reranked, pictures go by cosine."""
    limits = FormLimits(
        max_file_bytes=services.settings.max_file_bytes,
        max_body_bytes=services.settings.max_file_bytes + FORM_BYTES,
        max_files=1,
        max_field_bytes=FORM_BYTES,
    )
    async with uploaded(request, services, limits) as form:
        asked, picture = image_asked(form)
        refuse_improbable(asked, services)
        question = ImageQuestion(
            target=asked.target,
            k=asked.k,
            shortlist=asked.shortlist,
            model=asked.model,
            explain=asked.explain,
            min_score=asked.min_score,
            min_probability=asked.min_probability,
            filter=filter_of(asked.filter),
        )

        async def work() -> Outcome:
            if picture is None:
                assert asked.image_id is not None
                ask = partial(services.search.like_stored, question, asked.image_id)
            else:
                try:
                    decoded = await asyncio.wrap_future(services.pool.submit(picture.path))
                except DecodeFailed as fault:
                    raise UnreadablePicture(fault.reason) from fault
                ask = partial(services.search.uploaded, question, decoded.picture, decoded.width, decoded.height)
            cost = services.search.cost(asked.shortlist, detect=picture is not None)
            return await services.batcher.submit(cost, ask)

        def body(outcome: Outcome, common: dict[str, Any], total: float) -> ImageAnswer:
            captions = asked.target == "captions"
            return ImageAnswer(
                **common,
                target=asked.target,
                results=caption_hits(outcome) if captions else picture_hits(outcome),
                timings_ms=ImageTimings(**{"detect": 0.0, **outcome.milliseconds}, total=total),
            )

        determines = {"search": "image", "sha256": picture and picture.sha256, **asked.model_dump(mode="json")}
        return await answered(request, services, question, determines, work, body)


def image_asked(form: Form) -> tuple[ImageAsked, SpooledFile | None]:
    """The fields, and the picture unless a stored one is asked with."""
    try:
        asked = ImageAsked.model_validate(form.fields)
    except ValidationError as fault:
        raise invalid(fault.errors()) from fault
    if asked.explain and asked.target == "images":
        raise InvalidRequest.field("explain", "pictures like a picture go by cosine, there is nothing to explain")
    if asked.min_probability is not None and asked.target == "images":
        raise InvalidRequest.field(
            "min_probability", "pictures like a picture go by cosine, which is no probability; use min_score"
        )
    wrong = [file.field for file in form.files if file.field != "image"]
    if wrong:
        raise InvalidRequest.field(wrong[0], "is not a field of this request; the picture goes into `image`")
    if len(form.files) + (asked.image_id is not None) != 1:
        raise InvalidRequest.field("image", "give either a picture or an image_id")
    if not form.files:
        return asked, None
    picture = form.files[0]
    if picture.problem is not None:
        raise TooLarge(picture.problem)
    return asked, picture


def refuse_improbable(asked: SearchAsked, services: Services) -> None:
    """InvalidRequest where probabilities are asked of a model that has none."""
    if asked.min_probability is not None and services.models.named(asked.model).matcher.calibration is None:
        raise InvalidRequest.field(
            "min_probability", "this model has no calibration, so it gives no probabilities; use min_score"
        )


async def answered(
    request: Request,
    services: Services,
    question: TextQuestion | ImageQuestion,
    determines: Mapping[str, Any],
    work: Callable[[], Awaitable[Outcome]],
    body: Callable[[Outcome, dict[str, Any], float], BaseModel],
) -> Response:
    """The answer from the cache, or worked out and kept there. `determines` is what it depends on in the request."""
    started = time.perf_counter()
    served = services.models.named(question.model)
    about = {**determines, "model": served.name, "digest": served.matcher.digest}
    version = await asyncio.to_thread(services.search.index_version, served.name)
    kept = await services.cache.get(cache_key({**about, "index_version": version}))
    services.metrics.cache.labels("miss" if kept is None else "hit").inc()
    if kept is not None:
        return Response(again(kept, started), media_type="application/json")
    outcome = await while_connected(request, work())
    services.metrics.stage_times(outcome.milliseconds)
    common = {
        "model": outcome.model,
        "model_digest": outcome.digest,
        "k": question.k,
        "shortlist": question.shortlist,
        "index_version": outcome.index_version,
        "cached": False,
        "left_out": outcome.left_out,
    }

    def written() -> bytes:
        total = (time.perf_counter() - started) * 1000
        # What nobody asked for was never set, and stays out of the answer.
        return body(outcome, common, total).model_dump_json(exclude_unset=True).encode()

    content = await asyncio.to_thread(written)
    await services.cache.put(cache_key({**about, "index_version": outcome.index_version}), content)
    return Response(content, media_type="application/json")


def again(kept: bytes, started: float) -> bytes:
    """A kept answer, marked as such, with the time that finding it took."""
    answer = json.loads(kept)
    total = (time.perf_counter() - started) * 1000
    answer["cached"] = True
    answer["timings_ms"] = {**dict.fromkeys(answer["timings_ms"], 0.0), "total": total}
    return json.dumps(answer).encode()
