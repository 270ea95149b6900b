"""Catalogs to test with."""

from typing import Any

from index.catalog.catalog import Catalog
from index.records import DetectedPicture, Image, NewPicture


def picture(image_id: str, **fields: Any) -> NewPicture:
    """A picture with this id; fields not given have arbitrary values."""
    defaults: dict[str, Any] = {"filename": f"{image_id}.jpg", "extension": "jpg", "num_bytes": 9}
    return NewPicture(image_id=image_id, **defaults | fields)


def image_of(catalog: Catalog, image_id: str) -> Image:
    """The picture with this id, which must exist."""
    image = catalog.image(image_id)
    assert image is not None
    return image


def is_there(image: Image | None) -> bool:
    """Whether the picture exists and is not deleted."""
    return image is not None and image.state != "deleted"


def make_ready(catalog: Catalog, *image_ids: str, **file_says: Any) -> None:
    """Commit queued pictures as the worker does once their region records are on disk, with what their files say."""
    first = catalog.num_slots()
    catalog.commit(
        [
            DetectedPicture(image_id=image_id, slot=first + place, width=640, height=480, extractor="d1", **file_says)
            for place, image_id in enumerate(image_ids)
        ]
    )
