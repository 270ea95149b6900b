"""Snapshots: consistent copies of a data directory, taken while the service runs.

The catalog is copied first, by SQLite's backup. Everything that it refers to is on disk by then and stays: region
records are only appended, originals never change, and nothing is erased while the snapshot holds the lock of the
originals. Views, display copies and API keys are left out: the first two can be recomputed, keys should not travel with
pictures.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

from index.catalog.catalog import Catalog
from index.catalog.database.copies import copy_catalog
from index.lock import LOCK_NAME
from index.records import Image
from index.views.slab import HEADER, RECORDS, record_dtype, stored_layout
from models.extractors.config import CONFIG_FILE
from service.errors import UserError
from service.storage.data_dir import DataDir
from service.storage.kept_images import kept_images
from service.storage.originals import Originals
from service.storage.regions.entries import answering_folders
from service.storage.snapshots.files import ABOUT, CATALOG, SNAPSHOT_FORMAT, FolderSink, SnapshotSink, TarSink
from service.storage.temporary_folders import temporary_folder

log = logging.getLogger(__name__)

IN_DATA_DIRECTORIES = (LOCK_NAME, "views", "incoming", "keys.json")  # but in no snapshot
SCRATCH = ".regard-scratch-"  # the prefix of temporary folders with a copy of a catalog
OTHER_ARCHIVES = (".gz", ".tgz", ".bz2", ".xz", ".zst", ".zip", ".7z")


@dataclass(frozen=True)
class SnapshotContent:
    """The contents of a snapshot, counted."""

    pictures: int
    deleted: int
    """Further pictures, whose deletion can still be undone."""
    records: int
    missing: int
    """Pictures whose original was missing from the data directory."""


def take_snapshot(
    data_dir: Path, out: Path, clock: Callable[[], float] = time.time, each: Callable[[], None] = lambda: None
) -> SnapshotContent:
    """Write a snapshot to a new folder, or to a tar archive if the name ends in .tar; `each` is called for each
    picture.

    UserError where there is nothing to copy, `out` exists already, or the data directory changed too much meanwhile.
    """
    data = DataDir(data_dir)
    if not data.catalog.is_file():
        raise UserError(f"there is no catalog in {data_dir}: name the data directory with --data-dir")
    check_place(out, data_dir)
    sink: SnapshotSink = TarSink(out) if out.suffix == ".tar" else FolderSink(out)
    try:
        content = copy_into(data, sink, clock(), each, scratch=out if out.is_dir() else out.parent)
        sink.close()
    except FileNotFoundError as fault:
        sink.discard()
        if not _is_of(data, fault):
            raise
        raise UserError(f"{fault.filename} went away meanwhile, as at the end of a migration: try again") from None
    except BaseException:
        sink.discard()
        raise
    return content


def check_place(out: Path, data_dir: Path) -> None:
    """Raise UserError where no snapshot of the data directory can be written to `out`."""
    if out.exists() and not (out.is_dir() and out.suffix != ".tar" and not any(out.iterdir())):
        raise UserError(f"{out} {what_lies_at(out)} another place")
    if out.suffix.lower() in OTHER_ARCHIVES:
        name = out.with_suffix("")
        name = name if name.suffix == ".tar" else name.with_suffix(".tar")
        raise UserError(f"archives are written as .tar, pictures being compressed already: name {name}, not {out.name}")
    if not out.parent.is_dir():
        raise UserError(f"there is no folder {out.parent} to write {out.name} to")
    if data_dir.resolve() in [out.resolve(), *out.resolve().parents]:
        raise UserError(f"{out} lies in the data directory: name another place")


def _is_of(data: DataDir, fault: FileNotFoundError) -> bool:
    """Whether the missing file belongs to the data directory, and not to the target."""
    missing = None if fault.filename is None else Path(fault.filename)
    return missing is not None and missing.is_relative_to(data.root) and not missing.exists()


def what_lies_at(out: Path) -> str:
    """The reason why no snapshot is written to an existing path, as the beginning of a message."""
    if not (out / CATALOG).is_file() or (out / ABOUT).exists():
        return "is there already: name"
    if any((out / name).exists() for name in IN_DATA_DIRECTORIES):
        return "is a data directory: name it with --data-dir, and for the snapshot"
    return "may be a snapshot that did not come to its end, or a data directory: look what it is, and name"


def copy_into(
    data: DataDir,
    sink: SnapshotSink,
    now: float,
    each: Callable[[], None] = lambda: None,
    copied_catalog: Callable[[Path, Path], None] = copy_catalog,
    scratch: Path | None = None,
) -> SnapshotContent:
    """Copy the data directory as it is when `copied_catalog` copies its catalog; `each` is called for each picture.

    Meanwhile the catalog's copy lies in the folder `scratch`, by default that of temporary files.

    FileNotFoundError where a file disappeared meanwhile.
    """
    originals = Originals(data.root, write=False)
    # With features alone there is no folder of originals, and nothing that could be erased.
    protection = originals.adding() if data.originals.is_dir() else nullcontext()
    with temporary_folder(SCRATCH, scratch) as folder, protection:
        copied = folder / "copied" / CATALOG  # in a folder of its own, which an opened catalog locks
        copied.parent.mkdir()
        copied_catalog(data.catalog, copied)
        sink.add_part(CATALOG, copied, copied.stat().st_size)
        with copied.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        with closing(Catalog(copied)) as catalog:
            records = _copy_regions(data, catalog, sink)
            pictures = deleted = missing = 0
            for image in kept_images(catalog):
                pictures += image.deleted_at is None
                deleted += image.deleted_at is not None
                missing += not _copy_files(data, originals, image, sink)
                each()
    content = SnapshotContent(pictures, deleted, records, missing)
    description = {"format": SNAPSHOT_FORMAT, "taken_at": now, **vars(content), "catalog_sha256": digest}
    sink.add_bytes(ABOUT, json.dumps(description, indent=1).encode())  # last, since it marks the snapshot as complete
    return content


def _copy_regions(data: DataDir, catalog: Catalog, sink: SnapshotSink) -> int:
    """Copy the records that the catalog refers to; returns their number."""
    total = 0
    for name, count in answering_folders(catalog).items():
        folder = data.root / name
        if not (folder / HEADER).is_file():
            if count:
                log.warning("the regions in %s are missing: a worker makes them again", folder)
            continue
        size = record_dtype(stored_layout(folder)).itemsize
        present = min(count, (folder / RECORDS).stat().st_size // size)
        sink.add_bytes(f"{name}/{HEADER}", (folder / HEADER).read_bytes())
        sink.add_part(f"{name}/{RECORDS}", folder / RECORDS, present * size)
        if (folder / CONFIG_FILE).is_file():
            sink.add_bytes(f"{name}/{CONFIG_FILE}", (folder / CONFIG_FILE).read_bytes())
        total += present
    if (data.extractor / CONFIG_FILE).is_file():
        sink.add_bytes(f"extractor/{CONFIG_FILE}", (data.extractor / CONFIG_FILE).read_bytes())
    return total


def _copy_files(data: DataDir, originals: Originals, image: Image, sink: SnapshotSink) -> bool:
    """Copy the picture's original and thumbnail; False where the original is missing."""
    if not image.pictured:
        return True
    original, thumbnail = originals.path(image.image_id, image.extension), originals.thumbnail(image.image_id)
    for path in (original, thumbnail):
        if path.is_file():
            sink.add_file(path.relative_to(data.root).as_posix(), path)
    if not original.is_file():
        log.error("the original of picture %s is missing", image.image_id)
        return False
    return True
