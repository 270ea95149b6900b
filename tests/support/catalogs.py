"""Catalogs to test with."""

from typing import Any

from index.catalog import Catalog
from index.records import DetectedPicture, NewPicture


def picture(image_id: str, **said: Any) -> NewPicture:
    """A picture of which only its id matters, and what is said of it."""
    return NewPicture(
        **{"image_id": image_id, "filename": f"{image_id}.jpg", "extension": "jpg", "num_bytes": 9} | said
    )


def make_ready(catalog: Catalog, *image_ids: str) -> None:
    """As the worker does when the region records are on disk."""
    first = catalog.num_slots()
    catalog.commit(
        [
            DetectedPicture(image_id=image_id, slot=first + place, width=640, height=480, extractor="d1")
            for place, image_id in enumerate(image_ids)
        ]
    )
