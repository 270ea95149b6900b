"""Single pictures: bytes, thumbnail, regions and metadata."""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from index.records import Image
from service.api.dependencies import ServicesDep
from service.api.file_response import (
    PartialFileResponse,
    check_preconditions,
    check_range,
    is_unchanged,
    not_modified,
)
from service.api.picture_files import missing_original
from service.api.problems import problem_responses
from service.api.schemas.resources import Box, ImageInfo, RegionsAnswer
from service.api.serializers import image_info
from service.api.services import Services
from service.errors import (
    DiskFull,
    NotFound,
    Overloaded,
    PreconditionFailed,
    Problem,
    RangeNotSatisfiable,
    ReadOnlyCollection,
    UnreadablePicture,
)
from service.media.formats import MEDIA_TYPES
from service.storage.disk import refused_by_disk

log = logging.getLogger(__name__)
router = APIRouter(tags=["pictures"])

# The bytes of an id, a hash of them, never change; an hour bounds how long a deleted picture is still shown.
CACHE_HEADERS = {"Cache-Control": "private, max-age=3600, immutable"}
PICTURE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}},
    304: {"description": "The copy you have is still right."},
}
MADE_PICTURE_RESPONSES = PICTURE_RESPONSES | problem_responses(
    NotFound,
    ReadOnlyCollection,
    PreconditionFailed,
    RangeNotSatisfiable,
    UnreadablePicture,
    Overloaded,
    DiskFull,
    Problem,
)


@router.get(
    "/images/{image_id}",
    operation_id="get_image",
    summary="A picture's bytes",
    response_class=Response,
    responses=MADE_PICTURE_RESPONSES,
)
def get_image(image_id: str, request: Request, services: ServicesDep) -> Response:
    """The uploaded file without GPS, maker notes and other metadata; TIFF, HEIC, AVIF and RAW come as JPEG."""
    image = require_picture(find_image(services, image_id))
    headers = {"ETag": f'"{image_id}"', **CACHE_HEADERS}
    return not_modified(request, headers) or send_made(
        request, image, lambda: services.picture_files.find(image), headers
    )


@router.get(
    "/images/{image_id}/original",
    operation_id="get_original",
    summary="A picture's file as it was uploaded",
    response_class=Response,
    responses={
        **PICTURE_RESPONSES,
        200: {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}},
        **problem_responses(NotFound, PreconditionFailed, RangeNotSatisfiable, Problem),
    },
)
def get_original(image_id: str, request: Request, services: ServicesDep) -> Response:
    """The uploaded file, byte for byte: with the place where it was taken, if it tells that. Also of a picture that
    waits or was set aside."""
    image = require_picture(find_image_in_any_state(services, image_id))
    headers = {"ETag": f'"{image_id}-original"', **CACHE_HEADERS}
    path, name = services.storage.originals.path(image_id, image.extension), image.filename.rsplit("/", 1)[-1]
    if (response := not_modified(request, headers)) is not None:
        return response
    with suppress(FileNotFoundError):  # erased meanwhile
        if not services.storage.originals.lacks(image_id, image.extension, image.num_bytes):
            return send_file(request, path, MEDIA_TYPES[image.extension], headers, name)
    log.error("the original of picture %s is missing, cannot be read, or has another size: %s", image_id, path)
    raise missing_original(image_id, is_damaged=os.access(path, os.F_OK))


@router.get(
    "/images/{image_id}/thumbnail",
    operation_id="get_thumbnail",
    summary="A small JPEG of a picture",
    response_class=Response,
    responses=MADE_PICTURE_RESPONSES,
)
def get_thumbnail(image_id: str, request: Request, services: ServicesDep) -> Response:
    """At most 320 pixels a side, upright, without metadata. Also of a picture that waits for its regions."""
    image = require_picture(find_image(services, image_id))
    headers = {"ETag": f'"{image_id}-thumbnail"', **CACHE_HEADERS}
    return not_modified(request, headers) or send_made(
        request, image, lambda: services.picture_files.thumbnail(image), headers
    )


@router.get(
    "/images/{image_id}/deleted-thumbnail",
    operation_id="get_deleted_thumbnail",
    summary="A small JPEG of a deleted picture",
    response_class=Response,
    responses=MADE_PICTURE_RESPONSES,
)
def get_deleted_thumbnail(image_id: str, request: Request, services: ServicesDep) -> Response:
    """The thumbnail of a picture that was deleted and can still be brought back, for those who may do so."""
    image = require_picture(find_deleted_image(services, image_id))
    return send_made(request, image, lambda: services.picture_files.thumbnail(image), {"Cache-Control": "no-store"})


@router.get(
    "/images/{image_id}/regions",
    operation_id="get_regions",
    summary="What was found in a picture",
    responses=problem_responses(NotFound, Problem),
)
def get_regions(image_id: str, services: ServicesDep) -> RegionsAnswer:
    """Boxes in pixels of the upright picture, with labels, best first; of features alone, as far as these say."""
    image = find_ready_image(services, image_id)
    shown = services.storage.regions.shown(image)
    if shown is None:
        raise NotFound(f"Picture {image_id} is still waiting for its regions, which another detector finds anew.")
    extractor, picture_regions = shown
    return RegionsAnswer(
        image_id=image_id,
        width=image.width,
        height=image.height,
        extractor=extractor,
        regions=[Box.model_validate(region) for region in picture_regions.regions],
    )


@router.get(
    "/images/{image_id}/info",
    operation_id="get_info",
    summary="All that is known of a picture",
    responses=problem_responses(NotFound, Problem),
)
def get_info(image_id: str, services: ServicesDep) -> ImageInfo:
    """The state, file, date, captions and tags, the regions found in it, and why it was set aside if it was."""
    image = find_image_in_any_state(services, image_id)
    shown = services.storage.regions.shown(image) if image.state == "ready" else None
    failure = services.collection.pictures.failure(image_id)
    return image_info(image, None if shown is None else shown[1].regions, failure)


def send_made(
    request: Request, image: Image, find: Callable[[], tuple[Path, str]], headers: Mapping[str, str]
) -> Response:
    """`send_file` of the file that `find` returns with its media type, making it first if needed."""
    try:
        with refused_by_disk():
            path, media_type = find()
        return send_file(request, path, media_type, headers)
    except FileNotFoundError:  # erased meanwhile
        raise NotFound.picture(image.image_id) from None


def send_file(
    request: Request, path: Path, media_type: str, headers: Mapping[str, str], download: str | None = None
) -> Response:
    """The file, the part of it that the request asks for, or 304. Raises RangeNotSatisfiable for a part beyond its end,
    PreconditionFailed where the request expects another version, FileNotFoundError where there is no file.

    Browsers save it under the name `download` where one is given, and show it otherwise.
    """
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))  # before the status is sent, which cannot be taken back
        status = os.fstat(file.fileno())
        if is_unchanged(request, status.st_mtime):
            return Response(status_code=304, headers=headers)
        response = PartialFileResponse(file, headers, media_type, download)
        check_preconditions(request, response.headers)
        check_range(request, response.headers, status.st_size)
        stack.pop_all()
        return response


def find_image_in_any_state(services: Services, image_id: str) -> Image:
    """The picture with this id, also if it waits or was set aside. NotFound where it does not exist, or is deleted."""
    image = services.collection.pictures.image(image_id)
    if image is None or image.state == "deleted":
        raise NotFound.picture(image_id)
    return image


def find_image(services: Services, image_id: str) -> Image:
    """The picture with this id, if it can be shown; NotFound says why it cannot."""
    image = find_image_in_any_state(services, image_id)
    if image.state == "failed":
        raise NotFound(f"Picture {image_id} was set aside; /failures says why.")
    return image


def find_ready_image(services: Services, image_id: str) -> Image:
    """The picture with this id, if its regions are known; NotFound says why they are not."""
    image = find_image(services, image_id)
    if image.state != "ready":
        raise NotFound(f"Picture {image_id} is still waiting for its turn; ask again, GET /jobs says how far.")
    return image


def find_deleted_image(services: Services, image_id: str) -> Image:
    """The picture with this id, if it is deleted and can be restored; NotFound otherwise."""
    image = services.collection.pictures.image(image_id)
    kept_since = services.clock() - services.settings.delete_grace_s
    if image is None or image.state != "deleted" or image.is_gone(kept_since):
        raise NotFound(f"No picture {image_id} was deleted that can be brought back.")
    return image


def require_picture(image: Image) -> Image:
    """`image`, if its file was ingested; NotFound where only its features were."""
    if not image.pictured:
        raise NotFound(
            f"{image.image_id} was ingested as features only: there is no picture to show."
            f" /images/{image.image_id}/regions lists its regions."
        )
    return image
