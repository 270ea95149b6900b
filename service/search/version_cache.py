"""A cache of values read from the catalog at one of its versions."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key")
Cached = TypeVar("Cached")


def _count_one(value: object) -> int:
    return 1


class VersionCache(Generic[Key, Cached]):
    """The most recently used values of the latest version. Thread-safe."""

    def __init__(self, most: int, size_of: Callable[[Cached], int] = _count_one) -> None:
        """`most` bounds the sum of the sizes of all values."""
        self._most, self._size_of = most, size_of
        self._lock = threading.Lock()
        self._version, self._size = -1, 0
        self._kept: OrderedDict[Key, Cached] = OrderedDict()

    def get_or_read(
        self, version: int, keys: Iterable[Key], read: Callable[[list[Key]], Mapping[Key, Cached]]
    ) -> dict[Key, Cached]:
        """The values of the keys; those not cached yet come from `read`, and are then cached.

        A value may be newer than the version, never older.
        """
        wanted = list(keys)
        with self._lock:
            cached = {key: self._kept[key] for key in wanted if key in self._kept and version <= self._version}
            for key in cached:
                self._kept.move_to_end(key)
        missing = [key for key in wanted if key not in cached]
        if missing:
            fresh = read(missing)
            self._keep(version, fresh)
            cached |= fresh
        return cached

    def get_or_read_one(self, version: int, key: Key, read: Callable[[], Cached]) -> Cached:
        """`get_or_read` of a single key, whose value is the result of `read`."""
        return self.get_or_read(version, [key], lambda _: {key: read()})[key]

    def _keep(self, version: int, values: Mapping[Key, Cached]) -> None:
        with self._lock:
            if version < self._version:  # it may be older than what is cached
                return
            if version > self._version:
                self._version, self._size, self._kept = version, 0, OrderedDict()
            for key, value in values.items():
                if key not in self._kept:  # another search may have read it meanwhile
                    self._kept[key] = value
                    self._size += self._size_of(value)
            while self._size > self._most:
                self._size -= self._size_of(self._kept.popitem(last=False)[1])
