"""Places of a data directory that this process may not write or read, as where another user copied or restored it."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from index.catalog.database.connection import wal_of
from index.views.slab import HEADER
from service.storage.data_dir import DataDir

READ, WRITE = os.R_OK, os.R_OK | os.W_OK
LEVELS_BELOW = 2  # of a folder that is spread over thousands, of each of which the first one is looked at


class Wanted(NamedTuple):
    """A file or folder, which need not be there, and whether it is to be read alone, or written as well."""

    path: Path
    mode: int


def forbidden_to_uploads(data: DataDir, incoming: Path) -> str | None:
    """The first place that an upload cannot be written to, or where no regions can be read, in words; None for none."""
    header = Wanted(data.regions / HEADER, READ)
    wanted = [*_spread(incoming), *_spread(data.originals), Wanted(data.regions, READ), header]
    return next((_words(data, one) for one in wanted if not _is_allowed(one)), None)


def forbidden_to_worker(data: DataDir) -> Sequence[str]:
    """The places that a worker cannot write, in words."""
    wanted = [Wanted(data.catalog, WRITE), Wanted(wal_of(data.catalog), WRITE)]
    for folder in (data.incoming, data.originals, data.thumbnails, data.stripped):
        wanted += _spread(folder)
    for folder in (data.regions, data.views):
        inside = list(_entries(folder))
        below = [entry for one in inside if one.is_dir() for entry in _entries(Path(one.path))]
        wanted += [Wanted(folder, WRITE), *(Wanted(Path(one.path), WRITE) for one in [*inside, *below])]
    return [_words(data, one) for one in wanted if not _is_allowed(one)]


def _spread(folder: Path) -> Iterator[Wanted]:
    """The folder, the first one in it, and the first one in that: a copy of it has one owner, most often."""
    yield Wanted(folder, WRITE)
    for _ in range(LEVELS_BELOW):
        inside = next((entry for entry in _entries(folder) if entry.is_dir()), None)
        if inside is None:
            return
        yield Wanted(folder := Path(inside.path), WRITE)


def _entries(folder: Path) -> "Iterator[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:  # there is none, or it may not be looked into, which is told of the folder itself
        return


def _is_allowed(wanted: Wanted) -> bool:
    try:
        is_folder = stat.S_ISDIR(wanted.path.stat().st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return os.access(wanted.path, wanted.mode | (os.X_OK if is_folder else 0))


def _words(data: DataDir, wanted: Wanted) -> str:
    path, verb = wanted.path, "written" if wanted.mode == WRITE else "read"
    named = path.relative_to(data.root) if path.is_relative_to(data.root) else path
    return (
        f"{named} in the data directory cannot be {verb}: it belongs to another user, or its permissions forbid it;"
        " give the whole data directory to the user that the service runs as"
    )
