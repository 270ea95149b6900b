"""Paths of a data directory that this process may not read or write, for example after another user copied or restored
it."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from index.catalog.database.connection import wal_of
from index.views.slab import HEADER
from service.storage.data_dir import DataDir

READ, WRITE = os.R_OK, os.R_OK | os.W_OK
LEVELS_BELOW = 2  # of a folder with thousands of subfolders; at each level only the first is checked


class Wanted(NamedTuple):
    """A file or folder, which may be missing, and the access mode that it needs."""

    path: Path
    mode: int


def forbidden_to_uploads(data: DataDir, incoming: Path) -> str | None:
    """A message on the first path that uploads cannot write, or region searches cannot read; None if there is none."""
    header = Wanted(data.regions / HEADER, READ)
    wanted = [*_spread(incoming), *_spread(data.originals), Wanted(data.regions, READ), header]
    return next((_message(data, place) for place in wanted if not _is_allowed(place)), None)


def forbidden_to_worker(data: DataDir) -> Sequence[str]:
    """A message on each path that a worker cannot write."""
    wanted = [Wanted(data.catalog, WRITE), Wanted(wal_of(data.catalog), WRITE)]
    for folder in (data.incoming, data.originals, data.thumbnails, data.stripped):
        wanted += _spread(folder)
    for folder in (data.regions, data.views):
        children = list(_entries(folder))
        grandchildren = [entry for child in children if child.is_dir() for entry in _entries(Path(child.path))]
        entries = [*children, *grandchildren]
        wanted += [Wanted(folder, WRITE), *(Wanted(Path(entry.path), WRITE) for entry in entries)]
    return [_message(data, place) for place in wanted if not _is_allowed(place)]


def _spread(folder: Path) -> Iterator[Wanted]:
    """The folder, its first subfolder, and the first subfolder of that: a copied tree usually has one owner."""
    yield Wanted(folder, WRITE)
    for _ in range(LEVELS_BELOW):
        subfolder = next((entry for entry in _entries(folder) if entry.is_dir()), None)
        if subfolder is None:
            return
        yield Wanted(folder := Path(subfolder.path), WRITE)


def _entries(folder: Path) -> "Iterator[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:  # missing or unreadable, which is reported for the folder itself
        return


def _is_allowed(wanted: Wanted) -> bool:
    try:
        is_folder = stat.S_ISDIR(wanted.path.stat().st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return os.access(wanted.path, wanted.mode | (os.X_OK if is_folder else 0))


def _message(data: DataDir, wanted: Wanted) -> str:
    path, verb = wanted.path, "written" if wanted.mode == WRITE else "read"
    relative = path.relative_to(data.root) if path.is_relative_to(data.root) else path
    return (
        f"{relative} in the data directory cannot be {verb}: it belongs to another user, or its permissions forbid it;"
        " give the whole data directory to the user that the service runs as"
    )
