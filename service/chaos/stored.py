"""Checks of a data directory on disk: every checksum, and the consistency of each picture's parts."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from index.catalog.catalog import Catalog
from index.catalog.database.faults import DamagedCatalog, ReadOnlyCatalog, UnknownSchema
from index.views.slab import Corrupt
from index.views.view_manifest import NAME as VIEW_MANIFEST
from index.views.view_stores import opened_stores
from service.chaos.findings import Finding
from service.storage.data_dir import DataDir
from service.storage.kept_images import kept_images
from service.storage.originals import Originals
from service.storage.verification import find_damage

NO_DATA_DIR = (OSError, ValueError, sqlite3.Error, Corrupt, DamagedCatalog, ReadOnlyCatalog, UnknownSchema)


def stored_findings(data_dir: Path) -> Iterator[Finding]:
    """Faults on disk, to be checked while no worker runs. Unreadable files are findings, too."""
    for look in (_damage, _pictures, _views):
        yield from _reported(look, data_dir)


def confirmed_damage(data_dir: Path) -> list[Finding]:
    """Damage found by two consecutive checks, for use while a worker runs: pictures may be erased meanwhile."""
    first = list(_reported(_damage, data_dir))
    confirmed = set(_reported(_damage, data_dir)) if first else set()
    return [finding for finding in first if finding in confirmed]


def _reported(look: Callable[[Path], Iterator[Finding]], data_dir: Path) -> Iterator[Finding]:
    try:
        yield from look(data_dir)
    except NO_DATA_DIR as fault:
        yield Finding("half", str(data_dir), f"{fault}" or type(fault).__name__)


def _damage(data_dir: Path) -> Iterator[Finding]:
    for line in find_damage(data_dir):
        path, _, fault = line.partition(": ")
        yield Finding("half", f"{path}: {fault.partition(';')[0]}", line)


def _pictures(data_dir: Path) -> Iterator[Finding]:
    """Check that each ready picture has its thumbnail, and each slot a picture."""
    originals = Originals(data_dir, write=False)
    with closing(Catalog(DataDir(data_dir).catalog)) as catalog:
        try:
            catalog.images_in_any_state_at(range(catalog.num_slots()))
        except KeyError as fault:
            yield Finding("half", f"slot {fault}", "no picture has it")
        for image in kept_images(catalog):
            thumbnail = originals.thumbnail(image.image_id)
            if image.state == "ready" and image.pictured and not thumbnail.is_file():
                yield Finding("half", str(thumbnail), "the thumbnail of a picture that is ready is missing")


def _views(data_dir: Path) -> Iterator[Finding]:
    """Check that each view has exactly all pictures and captions."""
    data = DataDir(data_dir)
    with closing(Catalog(data.catalog)) as catalog:
        expected = (catalog.num_slots(), catalog.num_caption_slots())
    for manifest in sorted(data.views.glob(f"*/{VIEW_MANIFEST}")):
        with opened_stores(manifest.parent, write=False) as (_, counts):
            if counts != expected:
                held = f"{counts.images} pictures and {counts.captions} captions"
                message = f"it holds {held}, not {expected[0]} and {expected[1]}"
                yield Finding("half", str(manifest.parent), message)
