"""The region stores of a data directory: those listed in the catalog, and those implied where it lists none."""

import re
from dataclasses import replace

from index.catalog.catalog import Catalog
from index.records import RegionStoreEntry
from service.errors import Misconfigured
from service.storage.regions.extractor_identity import stored_extractor

ANSWERING = ("current", "former", "kept")  # the states of stores that still have their records
FIRST_FOLDER = "regions"  # the first extractor's store
FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def region_store_entries(catalog: Catalog, digest: str) -> list[RegionStoreEntry]:
    """The region stores as they will be with this extractor in service, its own first.

    Nothing is written: a worker lists them later (`RegionStoreTable.replace`), and readers derive the same list before
    that.
    """
    entries = catalog.region_stores.entries()
    if not entries:
        stored = stored_extractor(catalog)
        if stored is None or stored == digest:
            return [RegionStoreEntry(extractor=digest, folder=FIRST_FOLDER, state="current", records=None)]
        entries = [RegionStoreEntry(extractor=stored, folder=FIRST_FOLDER, state="current", records=None)]
    if entries[0].extractor == digest:
        return entries
    num_slots = catalog.num_slots()
    by_extractor = {entry.extractor: entry for entry in entries}
    current = by_extractor.pop(digest, None) or RegionStoreEntry(
        extractor=digest, folder=_folder_of(digest), state="current", records=0
    )
    other_entries = [
        replace(
            entry,
            state="former" if entry.state == "current" else entry.state,
            records=num_slots if entry.records is None else entry.records,
        )
        for entry in by_extractor.values()
    ]
    return [replace(current, state="current"), *other_entries]


def _folder_of(digest: str) -> str:
    if not FOLDER_NAME.fullmatch(digest):
        raise Misconfigured(f"the detector's digest {digest!r} cannot be the name of a folder")
    return f"{FIRST_FOLDER}/{digest}"


def answering_folders(catalog: Catalog) -> dict[str, int]:
    """Folder -> number of valid records, for each store that still has its records, the current store first."""
    entries, num_slots = catalog.region_stores.entries(), catalog.num_slots()
    if not entries:
        return {FIRST_FOLDER: num_slots}
    return {
        entry.folder: num_slots if entry.records is None else entry.records
        for entry in entries
        if entry.state in ANSWERING
    }
