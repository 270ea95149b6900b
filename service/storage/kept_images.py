"""Iteration over all pictures that are not erased, page by page, so that no full list is held in memory."""

from collections.abc import Iterator

from index.catalog.catalog import Catalog
from index.records import Image

KEPT_AT_ONCE = 500


def kept_images(catalog: Catalog) -> Iterator[Image]:
    """Pictures in order of arrival, deleted ones included; each page is read when it is reached."""
    last_number = 0
    while page := catalog.erasures.not_erased(last_number, KEPT_AT_ONCE):
        yield from (image for _, image in page)
        last_number = page[-1][0]
