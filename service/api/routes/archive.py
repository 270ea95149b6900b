"""Originals of several pictures in one ZIP archive, for programs and for browsers."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response
from pydantic import ValidationError
from pydantic_core import from_json

from index.records import Image
from service.api.access.credentials import BY_TICKET, Caller
from service.api.archive_response import ZIP, ArchiveResponse
from service.api.dependencies import ServicesDep, look_up
from service.api.problems import invalid_request, problem_responses
from service.api.schemas.archives import ArchiveRequest, ArchiveTicket
from service.api.services import Services
from service.errors import InvalidKey, InvalidRequest, NotFound, NotReady, Overloaded, Problem

router = APIRouter(tags=["pictures"])

TICKET_LASTS_S = 60
IDS_NAMED = 3  # ids in the text of a problem; its member `image_ids` has all
FORM = "application/x-www-form-urlencoded"
AS_SCHEMA = {"schema": ArchiveRequest.model_json_schema()}
BODY: dict[str, Any] = {"requestBody": {"required": True, "content": {"application/json": AS_SCHEMA}}}
BODIES: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": AS_SCHEMA, FORM: AS_SCHEMA}}
}
REFUSALS = problem_responses(InvalidRequest, NotFound, NotReady, Overloaded, Problem)


@router.post(
    BY_TICKET,
    operation_id="get_archive",
    summary="Original files as one archive",
    response_class=Response,
    openapi_extra=BODIES,
    responses={**REFUSALS, 200: {"content": {ZIP: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def get_archive(
    request: Request,
    services: ServicesDep,
    ticket: Annotated[
        str | None, Query(description="Of POST /images/archive/ticket, where a browser sends no key.")
    ] = None,
) -> Response:
    """The uploaded files byte for byte in a ZIP file, each under the name that it was uploaded with. With a form, a
    browser saves it as it comes."""
    image_ids = await asked_ids(request)
    caller: Caller = request.scope["caller"]
    if caller.purpose not in (None, purpose_of(image_ids)):
        raise InvalidKey("The ticket is for other pictures.")
    request.scope["audit"]["image_ids"] = ",".join(image_ids)
    images = await look_up(services, archived_images, services, image_ids)
    services.capacity.archives.check()
    name = f"pictures-{datetime.fromtimestamp(services.clock(), UTC):%Y-%m-%d}.zip"
    return ArchiveResponse(images, services.collection.original_files, services.capacity.archives, name)


@router.post(
    f"{BY_TICKET}/ticket",
    operation_id="get_archive_ticket",
    summary="Let a browser download an archive",
    openapi_extra=BODY,
    responses=REFUSALS,
)
async def get_archive_ticket(request: Request, services: ServicesDep) -> ArchiveTicket:
    """The address to download these pictures from, without a key, within a minute: for a form, since browsers send no
    key by themselves, and a program of a page would hold all of the archive in memory."""
    image_ids = await asked_ids(request)
    images = await look_up(services, archived_images, services, image_ids)
    services.capacity.archives.check()
    caller: Caller = request.scope["caller"]
    url = BY_TICKET
    if caller.key_id is not None:
        url += f"?ticket={services.keys.ticket(caller.key_id, purpose_of(image_ids), TICKET_LASTS_S)}"
    num_bytes = sum(image.num_bytes for image in images)
    return ArchiveTicket(url=url, pictures=len(images), num_bytes=num_bytes, lasts_s=TICKET_LASTS_S)


async def asked_ids(request: Request) -> list[str]:
    """The ids in the body, each once, in their order. Raises InvalidRequest for a body that cannot be used."""
    body = await request.body()
    is_form = request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM
    try:
        asked = ArchiveRequest.model_validate(parse_qs(body.decode("latin-1")) if is_form else from_json(body))
    except ValidationError as fault:
        raise invalid_request([{**error, "loc": ("body", *error["loc"])} for error in fault.errors()]) from fault
    except ValueError as fault:
        raise InvalidRequest.field("body", f"is not JSON: {fault}") from fault
    return list(dict.fromkeys(asked.image_ids))


def purpose_of(image_ids: Sequence[str]) -> str:
    """The purpose of a ticket for these pictures."""
    return hashlib.sha256(",".join(image_ids).encode()).hexdigest()[:32]


def archived_images(services: Services, image_ids: Sequence[str]) -> list[Image]:
    """The pictures. Raises NotFound, with their ids, where some do not exist, are deleted, or have no original."""
    found = services.collection.pictures.images(image_ids)
    images = [image for one in image_ids if (image := found.get(one)) is not None and image.state != "deleted"]
    there = {image.image_id for image in images}
    require_none([one for one in image_ids if one not in there], "are not there, or deleted")
    alone = [image.image_id for image in images if not image.pictured]
    require_none(alone, "were ingested as features only, and have no original")
    lost = services.collection.original_files.missing(images)
    require_none(
        lost, "have lost their original on the server, or have a damaged one; upload the files again to restore it"
    )
    return images


def require_none(image_ids: Sequence[str], problem: str) -> None:
    """NotFound where there are pictures with a problem."""
    if image_ids:
        named = ", ".join(image_ids[:IDS_NAMED])
        more = f" and {len(image_ids) - IDS_NAMED} more" if len(image_ids) > IDS_NAMED else ""
        raise NotFound(f"Pictures that {problem}: {named}{more}.", image_ids=list(image_ids))
