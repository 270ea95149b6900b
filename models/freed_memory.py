"""Memory that freed tensors leave behind: kept in the process for the next ones, or given back to the system.

By default glibc's malloc gives a large block back as soon as it is free, and the kernel clears every page of the next
one. A network's maps are such blocks, layer after layer. That takes some of every picture's time, more where other
processes want the processor too. With other C libraries nothing is changed here.
"""

import ctypes
from functools import cache

# Of glibc's <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8

KEPT_BYTES = 1 << 30


def keep_freed_memory() -> None:
    """Keep up to 1 GiB of freed memory in this process from now on, in one pool for all threads.

    With a pool for each thread none would hold blocks of more than 64 MiB, and what one thread freed would serve no
    other. For processes that run networks on a few threads, not for those that serve many at once.
    """
    library = _glibc()
    if library is None:
        return
    for parameter, value in ((M_MMAP_THRESHOLD, KEPT_BYTES), (M_TRIM_THRESHOLD, KEPT_BYTES), (M_ARENA_MAX, 1)):
        library.mallopt(parameter, value)


def give_back_freed_memory() -> None:
    """Give the pages that no block lies on back to the system."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    """The process's C library, where it is glibc."""
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None
