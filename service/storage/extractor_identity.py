"""Which extractor made the stored regions: features of two extractors do not compare."""

from index.catalog import Catalog
from service.errors import Misconfigured

LOOKED_AT = 100  # of the last pictures: deleted ones do not say


def stored_extractor(catalog: Catalog) -> str | None:
    """Digest of the extractor that made the latest stored regions; None where there are none."""
    count = catalog.num_slots()
    images = catalog.images_at(range(max(0, count - LOOKED_AT), count))
    return next((image.extractor for image in reversed(images) if image is not None), None)


def refuse_other_extractor(catalog: Catalog, digest: str) -> None:
    """Misconfigured when the stored regions were made by another extractor than the one with this digest."""
    stored = stored_extractor(catalog)
    if stored is not None and stored != digest:
        raise Misconfigured(
            f"The stored regions were found by the extractor {stored}, this one is {digest}."
            " Start with the detector of then (REGARD_DETECTOR; unset for features made elsewhere), or use another"
            " data directory (REGARD_DATA_DIR)."
        )
