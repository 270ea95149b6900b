"""Changes of stored pictures: deletion, restoration, and edits of their descriptions."""

from fastapi import APIRouter, Response

from index.catalog.changes.description_bounds import OversizedDescription
from service.api.dependencies import ServicesDep, in_change_thread
from service.api.problems import problem_responses
from service.api.routes.images import find_image
from service.api.schemas.changes import PictureEdit
from service.api.schemas.resources import ImageListed
from service.api.serializers import image_listed
from service.dates import duration
from service.errors import DiskFull, InvalidRequest, NotFound, Problem, ReadOnlyCollection

router = APIRouter(tags=["pictures"])


@router.delete(
    "/images/{image_id}",
    operation_id="delete_image",
    summary="Delete a picture",
    status_code=204,
    response_class=Response,
    responses=problem_responses(NotFound, ReadOnlyCollection, DiskFull, Problem),
)
@in_change_thread
def delete_image(image_id: str, services: ServicesDep) -> Response:
    """The picture is no longer found or shown. For a day (`REGARD_DELETE_GRACE_S`) this can be undone; then it is
    erased."""
    if not services.collection.pictures.delete(image_id, services.clock()):
        raise NotFound.picture(image_id)
    return Response(status_code=204)


@router.post(
    "/images/{image_id}/restore",
    operation_id="restore_image",
    summary="Undo a deletion",
    responses=problem_responses(NotFound, ReadOnlyCollection, DiskFull, Problem),
)
@in_change_thread
def restore_image(image_id: str, services: ServicesDep) -> ImageListed:
    """The picture as it was, found and shown again at once. A picture that is not deleted stays as it is."""
    grace_s = services.settings.delete_grace_s
    image = services.collection.pictures.restore(image_id, services.clock() - grace_s)
    if image is None:
        raise NotFound(f"There is no picture {image_id}, or it was deleted for good: send the file again.")
    if image.state == "deleted":
        raise NotFound(
            f"Picture {image_id} was deleted more than {duration(grace_s)} ago, which cannot be undone any more: send"
            " the file again."
        )
    return image_listed(image)


@router.patch(
    "/images/{image_id}",
    operation_id="edit_image",
    summary="Change captions, tags, date or name",
    responses=problem_responses(NotFound, InvalidRequest, ReadOnlyCollection, DiskFull, Problem),
)
@in_change_thread
def edit_image(image_id: str, edit: PictureEdit, services: ServicesDep) -> ImageListed:
    """Fields that are absent stay as they are, and null removes (JSON Merge Patch, RFC 7396).

    `captions` replace all captions; of `tags` those named change, and those that are null are removed. New captions are
    found as soon as the worker has encoded them, old ones no longer at once.
    """
    find_image(services, image_id)
    try:
        image = services.collection.pictures.change(image_id, edit.as_change())
    except OversizedDescription as refusal:
        excess = refusal.refused[image_id]
        raise InvalidRequest.field(excess.what, f"the picture {excess}; null takes one away") from None
    if image is None:
        raise NotFound.picture(image_id)  # deleted meanwhile
    services.wake()
    return image_listed(image)
