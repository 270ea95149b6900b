"""Shortlist indexes on disk, so that a view is searchable at once when opened again, without training.

One file holds the FAISS index of a shortlist's first part; a second names the rows and the view that it covers, with
the checksum of the first. Whatever does not match is ignored: the index is then built from the embeddings.

The index is memory-mapped, so that the processes that search it share its pages. A file that is replaced or removed
stays readable for those who have it open.
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

from index.files import make_folder, remove_strays, replace_file, replacement_of
from index.views.shortlist import Floats, Part

log = logging.getLogger(__name__)

LOCK = "building"
SHORTLIST_FORMAT = 2  # format 1 had float32 vectors in its lists
READ_AT_ONCE = 1 << 24  # bytes


class Building:
    """The right to build indexes for a folder."""

    def __init__(self, lock: IO[bytes] | None) -> None:
        self._lock = lock

    @property
    def is_void(self) -> bool:
        """Whether the folder was emptied in the meantime, as when rows are overwritten: a new index may hold their old
        vectors."""
        return self._lock is not None and os.fstat(self._lock.fileno()).st_nlink == 0


@contextmanager
def one_builder(folder: Path) -> Iterator[Building | None]:
    """The right to build indexes for the folder inside the block; None where another process has it.

    Where the folder cannot be written, every process may build.
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
    replacements. OSError where it cannot be written."""
    make_folder(folder)
    remove_strays(folder)
    content = _content_path(folder, name)
    with replacement_of(content) as file:  # another web process may do the same
        temporary = Path(file.name)
        _write(part, temporary)
        description = {
            "format": SHORTLIST_FORMAT,
            "generation": generation,
            "replaced": num_replaced,
            "rows": len(part),
            "dim": part.vectors().shape[1],
            "crc32": _checksum_of(temporary),
        }
    # Last: a description never refers to an index that is not on disk.
    replace_file(_about_path(folder, name), json.dumps(description, indent=1).encode())


def remove_part(folder: Path, name: str) -> None:
    """Remove a stored part, if there is one."""
    for path in (_about_path(folder, name), _content_path(folder, name)):
        path.unlink(missing_ok=True)


def load_part(folder: Path, name: str, *, generation: str, exact: Floats, replaced: Sequence[int] = ()) -> Part | None:
    """The stored part of the first of the current [n, dim] exact rows, with its index mapped. `replaced`: the rows that
    were replaced in this generation, in order.

    None where no valid part is stored, or it covers more rows.
    """
    try:
        description: dict[str, Any] = json.loads(_about_path(folder, name).read_bytes())
        if description["format"] != SHORTLIST_FORMAT or description["generation"] != generation:
            return None
        # Earlier versions do not store the number: they rebuilt the index whenever a row was replaced.
        num_replaced = int(description.get("replaced", 0))
        if description["dim"] != exact.shape[1] or description["rows"] > len(exact) or num_replaced > len(replaced):
            return None
        with _content_path(folder, name).open("rb") as file:
            # By its handle, since another process may replace the file in the meantime.
            opened = Path(f"/dev/fd/{file.fileno()}")
            if _checksum_of(opened) != description["crc32"]:
                log.warning("the stored shortlist %s is damaged and is built anew", file.name)
                return None
            # The checksum admits only files that this program wrote: FAISS itself does not validate its input.
            index = faiss.read_index(str(opened), faiss.IO_FLAG_MMAP_IFC)
        stale = frozenset(row for row in replaced[num_replaced:] if row < index.ntotal)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, RuntimeError) as fault:  # RuntimeError is raised by FAISS
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
    except RuntimeError as fault:  # raised by FAISS where the disk fails
        raise OSError(f"{path} cannot be written: {fault}") from fault


def _checksum_of(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(READ_AT_ONCE):
            crc = zlib.crc32(chunk, crc)
    return crc
