"""Every picture that is not erased, page by page, so that no list of all of them is held."""

from collections.abc import Iterator

from index.catalog.catalog import Catalog
from index.records import Image

KEPT_AT_ONCE = 500


def kept_images(catalog: Catalog) -> Iterator[Image]:
    """Pictures in order of arrival, deleted ones included, as each page is when it is read."""
    last = 0
    while page := catalog.erasures.not_erased(last, KEPT_AT_ONCE):
        yield from (image for _, image in page)
        last = page[-1][0]
