"""Originals and region records that the catalog does not know, as where a copy was made without its log."""

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
AT_ONCE = 1000
MOST_IN_HAND = 64  # records that a killed worker, or import of features, had written and not committed


def left_behind(data: DataDir, catalog: Catalog, most: int | None = None) -> str | None:
    """Words on what is stored and not in the catalog; None for nothing. At most `most` originals are looked at.

    Left out is what a killed process leaves, and what comes in at this moment.
    """
    (originals, looked_at), records = _count_unknown(catalog, data.originals, most), _count_uncounted(data, catalog)
    if not originals and not records:
        return None
    looked = f" (of {most} looked at)" if looked_at == most else ""
    counts = [f"{originals} originals{looked}"] * bool(originals) + [f"{records} region records"] * bool(records)
    return (
        f"{' and '.join(counts)} are not in the catalog: was {wal_of(data.catalog).name} left behind when {data.root}"
        " was copied? Then copy all of it again, while nothing runs; otherwise send the originals again"
    )


def _stored_ids(folder: Path) -> Iterator[str]:
    """The ids that files below the folder are named by, in no order."""
    for path in folder.glob("??/??/*"):
        if (named := ORIGINAL.fullmatch(path.name)) is not None:
            yield named[1]


def _count_unknown(catalog: Catalog, folder: Path, most: int | None) -> tuple[int, int]:
    """The number of originals that are of no picture, and of none that comes in, and how many were looked at."""
    image_ids, unknown, looked_at = islice(_stored_ids(folder), most), 0, 0
    while some := list(islice(image_ids, AT_ONCE)):
        coming = {file.image_id for file, _ in catalog.arrivals.open()}  # until the catalog knows them, so before that
        unknown += len(set(some) - coming - catalog.identities.added_at(some).keys())
        looked_at += len(some)
    return unknown, looked_at


def _count_uncounted(data: DataDir, catalog: Catalog) -> int:
    """The number of records beyond those that the catalog counts, where they are more than a killed process may have
    written."""
    uncounted = 0
    for name, count in answering_folders(catalog).items():
        folder = data.root / name
        try:
            size = record_dtype(stored_layout(folder)).itemsize
            uncounted += max(0, (folder / RECORDS).stat().st_size // size - count)
        except (Corrupt, ValueError, LookupError, OSError):  # which is told of elsewhere
            continue
    return uncounted if uncounted > MOST_IN_HAND else 0
