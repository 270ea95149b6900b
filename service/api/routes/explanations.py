"""Explanations of a stored picture's match with a sentence, drawn as one picture."""

import asyncio
import io
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import ValidationError

from index.records import Image
from models.matching.encoded import HalfPrecisionOverflow
from service.api.dependencies import ServicesDep, cancel_on_disconnect, decoded_picture, load_at_first_use, look_up
from service.api.picture_files import missing_original
from service.api.problems import invalid_request, problem_responses
from service.api.routes.images import find_ready_image, require_picture
from service.api.services import Services
from service.errors import (
    InvalidRequest,
    ModelNotLoaded,
    NotFound,
    NotReady,
    Overloaded,
    Problem,
    UnknownModel,
    UnreadablePicture,
    ViewNotBuilt,
)
from service.media.decode_pool import DecodedPicture
from service.panels import draw_explanation
from service.search.one_pair import ExplainedPair, explain_one
from service.search.query import OpenQuery
from service.search.requests import LONGEST_QUERY, TextSearchRequest

router = APIRouter(tags=["search"])


@router.get(
    "/images/{image_id}/explain.png",
    operation_id="explain_image",
    summary="Why a picture answers a sentence, as a picture",
    response_class=Response,
    responses={
        200: {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}},
        **problem_responses(
            InvalidRequest,
            UnreadablePicture,
            NotFound,
            UnknownModel,
            ViewNotBuilt,
            NotReady,
            Overloaded,
            ModelNotLoaded,
            Problem,
        ),
    },
)
async def explain_image(
    image_id: str,
    request: Request,
    services: ServicesDep,
    query: Annotated[str, Query(description="What the picture might show.", min_length=1, max_length=LONGEST_QUERY)],
    model: Annotated[str | None, Query(description="A model of GET /models; the default if left out.")] = None,
) -> Response:
    """One panel per content word: the brighter a region, the better it matched; the strongest is outlined. The word's
    part of the score is below the panel, that of all other words at the bottom."""
    try:
        search = TextSearchRequest(query=query, model=model, k=1, shortlist=1)
    except ValidationError as fault:
        raise invalid_request({**error, "loc": ("query", *error["loc"])} for error in fault.errors()) from fault
    opened = await asyncio.get_running_loop().run_in_executor(
        services.capacity.threads.search, services.collection.search.begin, search
    )
    await load_at_first_use(request, services, opened)
    content = await cancel_on_disconnect(request, drawn(services, image_id, opened))
    return Response(content, media_type="image/png", headers={"Cache-Control": "no-store"})


async def drawn(services: Services, image_id: str, opened: OpenQuery[TextSearchRequest]) -> bytes:
    """The explanation as a PNG, made in threads; its work counts as admitted until it is drawn."""
    run, search = partial(asyncio.get_running_loop().run_in_executor, services.capacity.threads.search), opened.request
    cost = await run(services.collection.search.costs.of_drawing, opened)
    image = require_picture(await look_up(services, find_ready_image, services, image_id))
    features = await run(services.collection.search.stored, image_id, opened.model.header.extractor_digest)
    with services.capacity.accelerator.admit(cost) as admission:
        try:
            pair = await run(admission.run, partial(explain_one, opened.matcher, opened.parsed.wanted_or_all, features))
        except HalfPrecisionOverflow as fault:
            raise InvalidRequest.field("model", str(fault)) from fault
        decoded = await decoded_original(services, image)
        content: bytes = await run(png_of, decoded, pair, f"“{search.query}”  {pair.score:.4f} by {opened.model.name}")
    return content


async def decoded_original(services: Services, image: Image) -> DecodedPicture:
    """The stored picture. Raises NotFound where its original is missing or was erased meanwhile, and what
    `decoded_picture` does."""
    original = services.storage.originals.path(image.image_id, image.extension)
    try:
        return await decoded_picture(services, original)
    except UnreadablePicture:
        if not await look_up(services, original.is_file):
            raise missing_original(image.image_id) from None
        raise


def png_of(decoded: DecodedPicture, pair: ExplainedPair, title: str) -> bytes:
    """The panels as a file."""
    content = io.BytesIO()
    sheet = draw_explanation(decoded.picture, (decoded.width, decoded.height), pair.explanation, title)
    sheet.save(content, "PNG")
    return content.getvalue()
