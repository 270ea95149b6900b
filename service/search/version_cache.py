"""A cache of what the catalog says at one of its versions, for searches that ask for the same."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key")
Found = TypeVar("Found")


class VersionCache(Generic[Key, Found]):
    """The values asked for last, all of one version: the latest that was asked for. Safe from many threads."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._version = -1
        self._kept: OrderedDict[Key, Found] = OrderedDict()

    def get_or_read(
        self, version: int, keys: Iterable[Key], read: Callable[[list[Key]], Mapping[Key, Found]]
    ) -> dict[Key, Found]:
        """The values of the keys; `read` gives those that are not kept, as far as there are any, and they are kept.

        What is read may be newer than the version, never older.
        """
        wanted = list(keys)
        with self._lock:
            found = {} if version != self._version else {key: self._kept[key] for key in wanted if key in self._kept}
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
            if version < self._version:  # of a search that began before others
                return
            if version > self._version:
                self._version, self._kept = version, OrderedDict()
            self._kept.update(values)
            while len(self._kept) > self._max_entries:
                self._kept.popitem(last=False)
