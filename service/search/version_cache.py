"""A cache of what the catalog says at one of its versions, for searches that ask for the same."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key")
Found = TypeVar("Found")


def _each_is_one(found: object) -> int:
    return 1


class VersionCache(Generic[Key, Found]):
    """The values asked for last, all of one version: the latest that was asked for. Safe from many threads."""

    def __init__(self, most: int, size_of: Callable[[Found], int] = _each_is_one) -> None:
        """`most` is the sum of the sizes of all values that are kept."""
        self._most, self._size_of = most, size_of
        self._lock = threading.Lock()
        self._version, self._size = -1, 0
        self._kept: OrderedDict[Key, Found] = OrderedDict()

    def get_or_read(
        self, version: int, keys: Iterable[Key], read: Callable[[list[Key]], Mapping[Key, Found]]
    ) -> dict[Key, Found]:
        """The values of the keys; `read` gives the values that are not cached yet, and these are cached then.

        A value may be newer than the version, never older.
        """
        wanted = list(keys)
        with self._lock:
            found = {key: self._kept[key] for key in wanted if key in self._kept and version <= self._version}
            for key in found:
                self._kept.move_to_end(key)
        missing = [key for key in wanted if key not in found]
        if missing:
            fresh = read(missing)
            self._keep(version, fresh)
            found |= fresh
        return found

    def _keep(self, version: int, values: Mapping[Key, Found]) -> None:
        with self._lock:
            if version < self._version:  # it may have been read before what is kept
                return
            if version > self._version:
                self._version, self._size, self._kept = version, 0, OrderedDict()
            for key, found in values.items():
                if key not in self._kept:  # another search may have read it meanwhile
                    self._kept[key] = found
                    self._size += self._size_of(found)
            while self._size > self._most:
                self._size -= self._size_of(self._kept.popitem(last=False)[1])
