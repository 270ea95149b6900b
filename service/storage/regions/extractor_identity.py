"""The extractor of the stored regions: features of different extractors are not comparable."""

from index.catalog.catalog import Catalog
from models.extractors.base import Extractor
from service.errors import Misconfigured


def stored_extractor(catalog: Catalog) -> str | None:
    """Digest of the extractor of the current store, or else of the latest regions; None if there are none."""
    current = next((entry for entry in catalog.region_stores.entries() if entry.state == "current"), None)
    return catalog.latest_extractor() if current is None else current.extractor


def check_extractor(catalog: Catalog, extractor: Extractor) -> None:
    """Raise Misconfigured when the stored regions come from another extractor and cannot be found again with this
    one."""
    stored = stored_extractor(catalog)
    if stored is None or stored == extractor.digest:
        return
    if not extractor.accepts_pictures:
        raise Misconfigured(
            f"The stored regions were found by the extractor {stored}, and {extractor.digest} is known by its features"
            " alone. Name a detector in REGARD_DETECTOR, or another data directory in REGARD_DATA_DIR."
        )
    if catalog.holds_features_alone():
        raise Misconfigured(
            f"The data directory holds features of {stored} without pictures, so that {extractor.digest} cannot find"
            " their regions anew. Unset REGARD_DETECTOR, and name models for these features in REGARD_MODELS; or use"
            " another data directory (REGARD_DATA_DIR)."
        )
