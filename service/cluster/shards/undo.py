"""The state before a change, so that one that was made but never written down can be taken back.

Taken back are pictures, and what was said of them. What no search shows stays: that a picture was tried again, that a
view is wanted, the name of a job.
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
    """A picture as it was before a change; one that there was none of is left out."""

    image_id: str
    deleted_at: float | None
    filename: str
    captions: tuple[str, ...]
    tags: Mapping[str, TagValue]
    taken_at: float | None
    decided_fields: Sequence[str] = ()


_BEFORE: TypeAdapter[list[PictureBefore]] = TypeAdapter(list[PictureBefore])


def state_before(catalog: Catalog, operation: Operation) -> bytes:
    """The pictures that the operation is about to change, as JSON."""
    found = [catalog.image(image_id) for image_id in touched_ids(operation)]
    there = [image for image in found if image is not None and image.state != "erasing"]
    names = PictureBefore.__dataclass_fields__.keys() - {"decided_fields"}
    before = [
        PictureBefore(
            **{name: getattr(image, name) for name in names}, decided_fields=catalog.decided_fields(image.image_id)
        )
        for image in there
    ]
    return _BEFORE.dump_json(before)


def take_back(catalog: Catalog, operation: Operation, before: bytes) -> None:
    """Give pictures the state that they had, whether the operation was made or not. Repeating it does no harm."""
    was = {one.image_id: one for one in _BEFORE.validate_json(before)}
    for image_id in touched_ids(operation):
        now = catalog.image(image_id)
        if now is not None and now.state != "erasing":
            _put_back(catalog, operation, now, was.get(image_id))


def touched_ids(operation: Operation) -> Sequence[str]:
    """The ids of the pictures that an operation is about."""
    if isinstance(operation, TakeIn):
        return list(dict.fromkeys(picture.image_id for picture in operation.pictures))
    return [] if isinstance(operation, BuildView) else [operation.image_id]


def _put_back(catalog: Catalog, operation: Operation, now: Image, was: PictureBefore | None) -> None:
    if was is None:
        catalog.delete(now.image_id, LONG_AGO)  # and so for good
        return
    if now.state == "deleted" and was.deleted_at is None:
        catalog.restore(now.image_id, EVER)
    changes = dict(_described_before(operation, now, was))
    if changes or list(was.decided_fields) != catalog.decided_fields(now.image_id):
        changes["decided_fields"] = was.decided_fields
    if changes and (now.state != "deleted" or was.deleted_at is None):
        catalog.change(now.image_id, PictureChange(**changes), bounded=False)
    if was.deleted_at is not None:
        catalog.delete(now.image_id, was.deleted_at)


def _described_before(operation: Operation, now: Image, was: PictureBefore) -> Iterator[tuple[str, Any]]:
    """The fields of a PictureChange that take back what an operation said; what others said meanwhile stays."""
    said = _said_of(operation, now.image_id)
    captions = (*was.captions, *(one for one in now.captions if one not in {*was.captions, *said.get("captions", ())}))
    if "captions" in said and captions != now.captions:
        yield "captions", captions
    names = said.get("tags", {})
    names = was.tags if names is None else names  # all tags were taken away
    tags = {name: was.tags.get(name) for name in names if was.tags.get(name) != now.tags.get(name)}
    if tags:
        yield "tags", tags
    if "taken_at" in said and was.taken_at != now.taken_at:
        yield "taken_at", was.taken_at
    if "filename" in said and was.filename != now.filename:
        yield "filename", was.filename


def _said_of(operation: Operation, image_id: str) -> dict[str, Any]:
    """The description that an operation gives a picture, by the fields of a PictureChange."""
    if isinstance(operation, Edit):
        return dict(operation.changes)
    said: dict[str, Any] = {}
    for picture in operation.pictures if isinstance(operation, TakeIn) else ():
        if picture.image_id == image_id:
            said["captions"] = [*said.get("captions", ()), *picture.captions]
            said["tags"] = {**said.get("tags", {}), **picture.tags}
            said["filename"] = picture.filename
            if picture.taken_at is not None:
                said["taken_at"] = picture.taken_at
    return said
