"""Memory of freed tensors: kept in the process for the next ones, or returned to the system.

By default glibc's malloc returns a large block as soon as it is free, and the operating system clears every page of the
next one. A network's maps are such blocks, layer after layer, so this costs time for every picture, more on a busy
machine. With other C libraries nothing changes.
"""

import ctypes
from functools import cache

# Of glibc's <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8

KEPT_BYTES = 1 << 30


def keep_freed_memory() -> None:
    """Keep up to 1 GiB of freed memory in this process from now on, in one pool for all threads.

    Pools for each thread would hold no blocks above 64 MiB, and would not share freed memory. This is for processes
    that run networks on a few threads, not for those that serve many at once.
    """
    library = _glibc()
    if library is None:
        return
    for parameter, value in ((M_MMAP_THRESHOLD, KEPT_BYTES), (M_TRIM_THRESHOLD, KEPT_BYTES), (M_ARENA_MAX, 1)):
        library.mallopt(parameter, value)


def give_back_freed_memory() -> None:
    """Return unused pages to the system."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    """The process's C library if it is glibc."""
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None
