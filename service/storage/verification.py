"""Verification: all stored bytes are read once and compared with their checksums. Nothing is changed."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from index.catalog.catalog import Catalog
from index.catalog.database.check import check_catalog, text_index_fault
from index.records import Image
from index.views.slab import HEADER, Corrupt, Slab, stored_layout
from index.views.view_manifest import NAME as VIEW_MANIFEST
from index.views.view_stores import opened_stores
from service.storage.data_dir import DataDir
from service.storage.kept_images import kept_images
from service.storage.originals import Originals, image_id_of_file
from service.storage.regions.entries import answering_folders

BAD_DESCRIPTION = (Corrupt, ValueError, LookupError, OSError)  # raised for a missing or damaged description


def find_damage(data_dir: Path, each: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Messages on damaged and missing parts, as they are found; `each` is called for every part that was checked.

    DamagedCatalog where the catalog itself cannot be read.
    """
    data = DataDir(data_dir)
    check_catalog(data.catalog)
    with closing(Catalog(data.catalog)) as catalog:
        if (fault := text_index_fault(data.catalog)) is not None:
            yield f"{data.catalog}: the index of words is damaged ({fault}); `regard compact` makes it anew"
        yield from _damaged_originals(data, catalog, each)
        for folder, count in answering_folders(catalog).items():
            yield from _damaged_records(data.root / folder, count, each)
    for manifest in sorted(data.views.glob(f"*/{VIEW_MANIFEST}")):
        yield from _damaged_view(manifest.parent, each)


def _damaged_originals(data: DataDir, catalog: Catalog, each: Callable[[], None]) -> Iterator[str]:
    originals = Originals(data.root, write=False)
    for image in kept_images(catalog):
        each()
        fault = original_fault(originals, image)
        if fault is not None:
            yield fault


def original_fault(originals: Originals, image: Image) -> str | None:
    """The fault of a picture's original; None if it has none, or if only features are known."""
    if not image.pictured:
        return None
    path = originals.path(image.image_id, image.extension)
    try:
        image_id = image_id_of_file(path)
    except OSError as fault:
        return f"{path}: {fault.strerror}; send the file again, or restore it from a copy"
    if image_id != image.image_id:
        return f"{path}: not the bytes that were taken in; send the file again, or restore it from a copy"
    return None


def _damaged_records(folder: Path, count: int, each: Callable[[], None]) -> Iterator[str]:
    if not (folder / HEADER).is_file():
        if count:
            yield f"{folder}: {count} region records are missing; a worker makes them again"
        return
    try:
        with closing(Slab.open(folder, stored_layout(folder), write=False)) as slab:
            for row in range(count):
                each()
                yield from _fault_of(lambda row=row: slab.check(row), "a worker makes it again")  # type: ignore[misc]
    except BAD_DESCRIPTION as fault:
        yield f"{folder}: the region records cannot be read ({fault}); a worker makes {HEADER} anew at its next start"


def _damaged_view(folder: Path, each: Callable[[], None]) -> Iterator[str]:
    advice = "stop the worker, remove the folder of the view, start it: the view is built anew"
    try:
        with opened_stores(folder, write=False) as (stores, counts):
            for check, count in ((stores.check_image, counts.images), (stores.check_caption, counts.captions)):
                for row in range(count):
                    each()
                    yield from _fault_of(lambda row=row, check=check: check(row), advice)  # type: ignore[misc]
    except BAD_DESCRIPTION as fault:
        yield f"{folder}: the view cannot be read ({fault}); {advice}"


def _fault_of(check: Callable[[], None], advice: str) -> Iterator[str]:
    try:
        check()
    except Corrupt as fault:
        yield f"{fault}; {advice}"
