"""Stored pictures: their list, bytes, thumbnails, regions and tags, and their deletion."""

import logging
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from index.records import Image
from service.api.dependencies import ServicesDep
from service.api.problems import problem_responses
from service.api.schemas.resources import Box, ImagesAnswer, RegionsAnswer, TagListed, TagsAnswer, TagValue
from service.api.serializers import image_listed
from service.api.services import Services
from service.errors import InvalidRequest, NotFound, Problem, UnreadablePicture
from service.media.decode_pool import DecodeFailed
from service.media.strip_metadata import read_without_metadata

log = logging.getLogger(__name__)
router = APIRouter(tags=["pictures"])

# An id is a hash of the bytes, so they never change; an hour bounds how long a deleted picture is still seen.
CACHE_HEADERS = {"Cache-Control": "private, max-age=3600, immutable"}
MAX_VALUES = 100  # listed of each tag
PICTURE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}},
    304: {"description": "The copy you have is still right."},
}


@router.get(
    "/images", operation_id="list_images", summary="List pictures", responses=problem_responses(InvalidRequest, Problem)
)
def list_images(
    services: ServicesDep,
    after: Annotated[str | None, Query(description="The `next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ImagesAnswer:
    """Pictures that are not deleted, in order of arrival."""
    try:
        images = services.catalog.list_images(after, limit + 1)
    except ValueError as fault:
        raise InvalidRequest.field("after", str(fault)) from fault
    more = len(images) > limit
    page = images[:limit]
    return ImagesAnswer(images=[image_listed(image) for image in page], next=page[-1].image_id if more else None)


@router.get("/tags", operation_id="list_tags", summary="Tags in use", responses=problem_responses(Problem))
def list_tags(services: ServicesDep) -> TagsAnswer:
    """Names with their most frequent values, for building filters."""
    return TagsAnswer(
        tags=[
            TagListed(
                name=tag.name,
                pictures=tag.num_pictures,
                distinct_values=tag.num_values,
                values=[TagValue(value=value, pictures=count) for value, count in tag.values],
            )
            for tag in services.catalog.tags(MAX_VALUES)
        ]
    )


@router.get(
    "/images/{image_id}",
    operation_id="get_image",
    summary="A picture's bytes",
    response_class=Response,
    responses={**PICTURE_RESPONSES, **problem_responses(NotFound, UnreadablePicture, Problem)},
)
def get_image(image_id: str, request: Request, services: ServicesDep) -> Response:
    """The uploaded file without GPS, maker notes and other metadata; TIFF comes as JPEG."""
    image = require_picture(find_image(services, image_id))
    tag = f'"{image_id}"'
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"ETag": tag, **CACHE_HEADERS})
    path = services.originals.path(image_id, image.extension)
    try:
        content, media_type = read_without_metadata(path, image.extension, services.pool)
    except FileNotFoundError:
        log.error("the original of picture %s is missing: there is no %s", image_id, path)
        raise NotFound(
            f"The original of picture {image_id} is missing on the server; upload the same file again to restore it."
        ) from None
    except DecodeFailed as fault:
        raise UnreadablePicture(fault.reason) from fault
    return Response(content, media_type=media_type, headers={"ETag": tag, **CACHE_HEADERS})


@router.get(
    "/images/{image_id}/thumbnail",
    operation_id="get_thumbnail",
    summary="A small JPEG of a picture",
    response_class=Response,
    responses={**PICTURE_RESPONSES, **problem_responses(NotFound, Problem)},
)
def get_thumbnail(image_id: str, request: Request, services: ServicesDep) -> Response:
    """At most 320 pixels a side, upright, without metadata."""
    require_picture(find_ready_image(services, image_id))
    tag = f'"{image_id}-thumbnail"'
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"ETag": tag, **CACHE_HEADERS})
    try:
        content = services.originals.thumbnail(image_id).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"The thumbnail of picture {image_id} is missing on the server.") from None
    return Response(content, media_type="image/jpeg", headers={"ETag": tag, **CACHE_HEADERS})


@router.get(
    "/images/{image_id}/regions",
    operation_id="get_regions",
    summary="What was found in a picture",
    responses=problem_responses(NotFound, Problem),
)
def get_regions(image_id: str, services: ServicesDep) -> RegionsAnswer:
    """Boxes in pixels of the upright picture, with labels, best first; of features alone, as far as these say."""
    image = find_ready_image(services, image_id)
    shown = services.regions.shown(image)
    if shown is None:
        raise NotFound(f"Picture {image_id} is still waiting for its regions, which another detector finds anew.")
    extractor, found = shown
    return RegionsAnswer(
        image_id=image_id,
        width=image.width,
        height=image.height,
        extractor=extractor,
        regions=[Box.model_validate(region) for region in found.regions],
    )


@router.delete(
    "/images/{image_id}",
    operation_id="delete_image",
    summary="Delete a picture",
    status_code=204,
    response_class=Response,
    responses=problem_responses(NotFound, Problem),
)
def delete_image(image_id: str, services: ServicesDep) -> Response:
    """It is no longer found or shown; the same picture may be ingested again."""
    if not services.catalog.delete(image_id, services.clock()):
        raise NotFound(f"There is no picture {image_id}.")
    return Response(status_code=204)


def find_image(services: Services, image_id: str) -> Image:
    """The picture with this id, if it can be shown; NotFound says why it cannot."""
    image = services.catalog.image(image_id)
    if image is None or image.state == "deleted":
        raise NotFound(f"There is no picture {image_id}.")
    if image.state == "failed":
        raise NotFound(f"Picture {image_id} was set aside; /failures says why.")
    return image


def find_ready_image(services: Services, image_id: str) -> Image:
    """The picture with this id, if its regions are known; NotFound says why they are not."""
    image = find_image(services, image_id)
    if image.state != "ready":
        raise NotFound(f"Picture {image_id} is still waiting for its turn.")
    return image


def require_picture(image: Image) -> Image:
    """`image`, if its file was ingested; NotFound where its features alone were."""
    if not image.pictured:
        raise NotFound(
            f"{image.image_id} was ingested as features only: there is no picture to show."
            f" /images/{image.image_id}/regions lists its regions."
        )
    return image
