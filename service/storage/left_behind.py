"""Originals and region records that the catalog does not know, as when a copy was made without the write-ahead log."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from index.catalog.catalog import Catalog
from index.catalog.database.connection import wal_of
from index.views.slab import RECORDS, Corrupt, record_dtype, stored_layout
from service.storage.data_dir import DataDir
from service.storage.regions.entries import answering_folders

ORIGINAL = re.compile(r"([0-9a-f]{32})\.\w+")
ORIGINALS_AT_ONCE = 1000
MOST_UNCOMMITTED = 64  # records that a killed worker, or import of features, may leave uncommitted


def left_behind(data: DataDir, catalog: Catalog, most: int | None = None) -> str | None:
    """A message on stored files that the catalog does not know; None for none. At most `most` originals are checked.

    Files of killed processes, and of uploads in progress, are not counted.
    """
    (originals, looked_at), records = _count_unknown(catalog, data.originals, most), _count_uncounted(data, catalog)
    if not originals and not records:
        return None
    looked = f" (of {most} looked at)" if looked_at == most else ""
    parts = {f"{originals} originals{looked}": originals, f"{records} region records": records}
    counts = " and ".join(part for part, count in parts.items() if count)
    return (
        f"{counts} are not in the catalog: was {wal_of(data.catalog).name} left behind when {data.root}"
        " was copied? Then copy all of it again, while nothing runs; otherwise send the originals again"
    )


def _stored_ids(folder: Path) -> Iterator[str]:
    """The ids in the names of files below the folder, in no particular order."""
    for path in folder.glob("??/??/*"):
        if (match := ORIGINAL.fullmatch(path.name)) is not None:
            yield match[1]


def _count_unknown(catalog: Catalog, folder: Path, most: int | None) -> tuple[int, int]:
    """The number of originals that belong neither to a picture nor to an upload in progress, and the number checked."""
    image_ids, unknown, looked_at = islice(_stored_ids(folder), most), 0, 0
    while batch := list(islice(image_ids, ORIGINALS_AT_ONCE)):
        # Read before the catalog: an upload is announced until its picture is committed.
        announced = {file.image_id for file, _ in catalog.arrivals.open()}
        unknown += len(set(batch) - announced - catalog.identities.added_at(batch).keys())
        looked_at += len(batch)
    return unknown, looked_at


def _count_uncounted(data: DataDir, catalog: Catalog) -> int:
    """The number of records beyond those in the catalog; 0 where a killed process may have left them."""
    uncounted = 0
    for name, count in answering_folders(catalog).items():
        folder = data.root / name
        try:
            size = record_dtype(stored_layout(folder)).itemsize
            uncounted += max(0, (folder / RECORDS).stat().st_size // size - count)
        except (Corrupt, ValueError, LookupError, OSError):  # reported elsewhere
            continue
    return uncounted if uncounted > MOST_UNCOMMITTED else 0
