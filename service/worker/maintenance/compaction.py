"""Compaction: data of erased pictures and captions in slabs and views is overwritten, and its disk space freed.

Slots keep their numbers: a row becomes zeros with a checksum, for which the file system stores no blocks if it can.
"""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from index.catalog.catalog import Catalog
from index.catalog.database.check import text_index_fault
from index.views.slab import HEADER, Corrupt, LayoutMismatch, Slab, stored_layout
from index.views.view import remove_shortlists
from index.views.view_manifest import NAME as VIEW_MANIFEST
from index.views.view_manifest import ViewMismatch
from index.views.view_stores import opened_stores
from service.clocks import Clocks
from service.errors import UserError
from service.storage.data_dir import DataDir
from service.storage.data_dir_lock import lock_data_dir
from service.storage.originals import Originals
from service.storage.regions.entries import answering_folders
from service.storage.regions.found_regions import FoundRegions
from service.worker.maintenance.erasure import LOOK_EVERY_S, Erasure

REMOVAL_PATIENCE_S = 30.0  # an upload takes seconds, a snapshot longer


@dataclass(frozen=True)
class CompactionResult:
    """The result of a compaction: the numbers of overwritten records and view rows, and the bytes of disk freed."""

    records: int
    view_rows: int
    num_bytes: int


def compact_data_dir(data_dir: Path, grace_s: float, clock: Callable[[], float] = time.time) -> CompactionResult:
    """Erase the pictures that are due, then overwrite all remaining data of erased ones.

    Locked while a worker runs. UserError where files cannot be removed because others are stored or read, and, after
    all else is done, where a view or the catalog's log still holds erased data.
    """
    data = DataDir(data_dir)
    with lock_data_dir(data_dir), closing(Catalog(data.catalog)) as catalog:
        room_before = _room(data)
        erasure = Erasure(catalog, Originals(data_dir), FoundRegions(data_dir), grace_s, Clocks(clock))
        _erase_all(erasure, catalog)
        images, captions = catalog.erasures.slots()
        records = sum(_blank_records(data.root / folder, images) for folder in answering_folders(catalog))
        views = [manifest.parent for manifest in data.views.glob(f"*/{VIEW_MANIFEST}")]
        problems = list[str]()
        rows = 0
        for folder in sorted(views):
            try:
                rows += _blank_rows(folder, images, captions)
            except (Corrupt, LayoutMismatch, ViewMismatch) as fault:
                problems.append(f"{folder} cannot be read, which a worker makes anew: {fault}")
        _clean_texts(catalog, data.catalog)
        if not catalog.erasures.fold_log():
            problems.append(f"another program reads {data.catalog}, whose log cannot be emptied meanwhile")
        if problems:
            raise UserError(
                f"not all that was erased is overwritten: {'; '.join(problems)}. Run this command again then"
            )
        return CompactionResult(records, rows, max(0, room_before - _room(data)))


def _clean_texts(catalog: Catalog, path: Path) -> None:
    """Remove the words of erased texts from the index: in steps that let others write in between, or, if the index is
    damaged, by rebuilding it."""
    if text_index_fault(path) is None:
        catalog.texts.purge()
    else:
        catalog.texts.rebuild()


def _erase_all(erasure: Erasure, catalog: Catalog) -> None:
    """Erase the pictures that are due; files are only removed while no process stores or copies any."""
    deadline = time.monotonic() + REMOVAL_PATIENCE_S
    while True:
        while erasure.advance():
            pass
        if not catalog.erasures.being_erased(1):
            return
        if time.monotonic() >= deadline:
            raise UserError(
                "files of deleted pictures cannot be removed while pictures come in or a snapshot is made: run this"
                " command again when that has ended"
            )
        time.sleep(LOOK_EVERY_S)


def _blank_records(folder: Path, slots: list[int]) -> int:
    if not (folder / HEADER).is_file():
        return 0
    with closing(Slab.open(folder, stored_layout(folder), write=True)) as slab:
        return slab.blank(slot for slot in slots if slot < len(slab))


def _blank_rows(folder: Path, images: list[int], captions: list[int]) -> int:
    with opened_stores(folder, write=True) as (stores, counts):
        images = [slot for slot in images if slot < counts.images]
        captions = [slot for slot in captions if slot < counts.captions]
        if not images and not captions:
            return 0
        # At every compaction: a killed one may have left codes of rows that it had overwritten.
        remove_shortlists(folder)
        changed = stores.blank(images, captions)
    if changed:
        remove_shortlists(folder)  # a web process may have built one meanwhile
    return changed


def _room(data: DataDir) -> int:
    """Bytes of disk used by regions and views."""
    files = (path for root in (data.regions, data.views) for path in root.rglob("*") if path.is_file())
    return sum(512 * path.stat().st_blocks for path in files)
