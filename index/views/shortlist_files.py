"""Indexes of shortlists on disk: a view that is opened again is searched at once, without training.

A file holds the FAISS index of a shortlist's first part, another says which rows of which view it covers, with the
checksum of the first. Whatever does not match is as good as absent: the index is then built from the embeddings.

The index is opened by memory map, so that the processes that search it share its pages. A file that is replaced or
removed lives on for who has opened it.
"""

import fcntl
import json
import logging
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import faiss

from index.files import make_folder, remove_strays, replace_file, sync_file, temporary_beside
from index.views.shortlist import Floats, Part

log = logging.getLogger(__name__)

LOCK = "building"
SHORTLIST_FORMAT = 2  # 1 held float32 vectors in its lists
READ_AT_ONCE = 1 << 24  # bytes


class Building:
    """The right to build indexes for a folder."""

    def __init__(self, lock: IO[bytes] | None) -> None:
        self._lock = lock

    @property
    def is_void(self) -> bool:
        """Whether all in the folder was removed since, as when rows are overwritten: an index may hold them still."""
        return self._lock is not None and os.fstat(self._lock.fileno()).st_nlink == 0


@contextmanager
def one_builder(folder: Path) -> Iterator[Building | None]:
    """The right to build indexes for the folder inside the block; None where another process has it.

    Where nothing can be written there, everybody builds.
    """
    try:
        make_folder(folder)
        lock = (folder / LOCK).open("wb")
    except OSError:
        yield Building(None)
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield Building(lock)


def save_part(folder: Path, name: str, part: Part, generation: str, num_replaced: int = 0) -> None:
    """Store the part, durably, as the first rows of a view's `generation`, after the first `num_replaced` of its
    replacements. OSError when the disk refuses."""
    make_folder(folder)
    remove_strays(folder)
    content = _content_path(folder, name)
    with temporary_beside(content) as file:  # also another web process may be at it
        temporary = Path(file.name)
        _write(part, temporary)
        about = {
            "format": SHORTLIST_FORMAT,
            "generation": generation,
            "replaced": num_replaced,
            "rows": len(part),
            "dim": part.vectors().shape[1],
            "crc32": _checksum_of(temporary),
        }
        sync_file(temporary)
        temporary.replace(content)
    # Last: a description never speaks of an index that is not on disk.
    replace_file(_about_path(folder, name), json.dumps(about, indent=1).encode())


def remove_part(folder: Path, name: str) -> None:
    """Remove a stored part, if there is one."""
    for path in (_about_path(folder, name), _content_path(folder, name)):
        path.unlink(missing_ok=True)


def load_part(folder: Path, name: str, *, generation: str, exact: Floats, replaced: Sequence[int] = ()) -> Part | None:
    """The stored part of the first of the [n, dim] exact rows that count now, its index mapped. `replaced`: the rows
    that were replaced in this generation, in their order.

    None where there is none that checks, or it covers more rows.
    """
    try:
        about: dict[str, Any] = json.loads(_about_path(folder, name).read_bytes())
        if about["format"] != SHORTLIST_FORMAT or about["generation"] != generation:
            return None
        # An earlier version does not say how many, and built an index anew whenever a row was replaced.
        num_replaced = int(about.get("replaced", 0))
        if about["dim"] != exact.shape[1] or about["rows"] > len(exact) or num_replaced > len(replaced):
            return None
        with _content_path(folder, name).open("rb") as file:
            # By its handle, since another process may put another file in its place meanwhile.
            opened = Path(f"/dev/fd/{file.fileno()}")
            if _checksum_of(opened) != about["crc32"]:
                log.warning("the stored shortlist %s is damaged and is built anew", file.name)
                return None
            # Only what this program wrote passes the checksum: FAISS itself trusts the files that it is given.
            index = faiss.read_index(str(opened), faiss.IO_FLAG_MMAP_IFC)
        stale = frozenset(row for row in replaced[num_replaced:] if row < index.ntotal)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, RuntimeError) as fault:  # the last is FAISS'
        log.warning("the stored shortlist in %s cannot be read and is built anew: %s", folder, fault)
        return None
    return Part(index, exact[: index.ntotal], stale)


def _content_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.faiss"


def _about_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _write(part: Part, path: Path) -> None:
    try:
        faiss.write_index(part.index, str(path))
    except RuntimeError as fault:  # FAISS' word for a disk that refuses
        raise OSError(f"{path} cannot be written: {fault}") from fault


def _checksum_of(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(READ_AT_ONCE):
            crc = zlib.crc32(chunk, crc)
    return crc
