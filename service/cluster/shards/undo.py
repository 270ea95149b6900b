"""Undo of a change that was made but never recorded, by the state before it.

Pictures and their descriptions are restored. State that no search shows stays: that a picture was retried, that a view
was requested, the id of a job.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from index.catalog.catalog import Catalog
from index.records import Image, PictureChange, TagValue
from service.cluster.operations import LONG_AGO, BuildView, Edit, Operation, TakeIn

EVER = float("-inf")


@dataclass(frozen=True, kw_only=True)
class PictureBefore:
    """A picture as it was before a change; for a new picture there is none."""

    image_id: str
    deleted_at: float | None
    filename: str
    captions: tuple[str, ...]
    tags: Mapping[str, TagValue]
    taken_at: float | None
    decided_fields: Sequence[str] = ()


_BEFORE: TypeAdapter[list[PictureBefore]] = TypeAdapter(list[PictureBefore])


def state_before(catalog: Catalog, operation: Operation) -> bytes:
    """The state of the pictures that the operation is about to change, as JSON."""
    touched = [catalog.image(image_id) for image_id in touched_ids(operation)]
    images = [image for image in touched if image is not None and image.state != "erasing"]
    names = PictureBefore.__dataclass_fields__.keys() - {"decided_fields"}
    before = [
        PictureBefore(
            **{name: getattr(image, name) for name in names}, decided_fields=catalog.decided_fields(image.image_id)
        )
        for image in images
    ]
    return _BEFORE.dump_json(before)


def take_back(catalog: Catalog, operation: Operation, before: bytes) -> None:
    """Restores the state of pictures, whether the operation was made or not; it may be repeated."""
    former = {picture.image_id: picture for picture in _BEFORE.validate_json(before)}
    for image_id in touched_ids(operation):
        image = catalog.image(image_id)
        if image is not None and image.state != "erasing":
            _put_back(catalog, operation, image, former.get(image_id))


def touched_ids(operation: Operation) -> Sequence[str]:
    """The ids of the pictures that an operation is about."""
    if isinstance(operation, TakeIn):
        return list(dict.fromkeys(picture.image_id for picture in operation.pictures))
    return [] if isinstance(operation, BuildView) else [operation.image_id]


def _put_back(catalog: Catalog, operation: Operation, image: Image, former: PictureBefore | None) -> None:
    if former is None:
        catalog.delete(image.image_id, LONG_AGO)  # permanently
        return
    if image.state == "deleted" and former.deleted_at is None:
        catalog.restore(image.image_id, EVER)
    changes = dict(_described_before(operation, image, former))
    if changes or list(former.decided_fields) != catalog.decided_fields(image.image_id):
        changes["decided_fields"] = former.decided_fields
    if changes and (image.state != "deleted" or former.deleted_at is None):
        catalog.change(image.image_id, PictureChange(**changes), bounded=False)
    if former.deleted_at is not None:
        catalog.delete(image.image_id, former.deleted_at)


def _described_before(operation: Operation, image: Image, former: PictureBefore) -> Iterator[tuple[str, Any]]:
    """The fields of a PictureChange that undo an operation's description; other changes since then stay."""
    written = _written_to(operation, image.image_id)
    captions = (
        *former.captions,
        *(text for text in image.captions if text not in {*former.captions, *written.get("captions", ())}),
    )
    if "captions" in written and captions != image.captions:
        yield "captions", captions
    names = written.get("tags", {})
    names = former.tags if names is None else names  # all tags were removed
    tags = {name: former.tags.get(name) for name in names if former.tags.get(name) != image.tags.get(name)}
    if tags:
        yield "tags", tags
    if "taken_at" in written and former.taken_at != image.taken_at:
        yield "taken_at", former.taken_at
    if "filename" in written and former.filename != image.filename:
        yield "filename", former.filename


def _written_to(operation: Operation, image_id: str) -> dict[str, Any]:
    """The description that an operation gives a picture, by the fields of a PictureChange."""
    if isinstance(operation, Edit):
        return dict(operation.changes)
    description: dict[str, Any] = {}
    for picture in operation.pictures if isinstance(operation, TakeIn) else ():
        if picture.image_id == image_id:
            description["captions"] = [*description.get("captions", ()), *picture.captions]
            description["tags"] = {**description.get("tags", {}), **picture.tags}
            description["filename"] = picture.filename
            if picture.taken_at is not None:
                description["taken_at"] = picture.taken_at
    return description
