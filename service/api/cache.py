"""A cache of answers, in this process or in Redis; a failing cache means a miss, never an error."""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Protocol

LARGEST = 64 * 1024  # bytes of a cached answer; one with a hundred explanations is far larger


def cache_key(determines: Mapping[str, Any]) -> str:
    """Digest of everything an answer depends on."""
    text = json.dumps(determines, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class ResultCache(Protocol):
    """Bytes by key, kept for some time. Thread-safe."""

    @property
    def keeps_any(self) -> bool:
        """Whether the cache stores anything."""

    def get(self, key: str) -> bytes | None:
        """The answer under `key`, if it is still cached."""

    def put(self, key: str, answer: bytes) -> None:
        """Cache `answer`."""

    def close(self) -> None:
        """Let go of connections."""


class LocalCache:
    """An LRU cache of answers in this process."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._answers: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def keeps_any(self) -> bool:
        """Whether there is room for an answer."""
        return self._max_entries > 0

    def get(self, key: str) -> bytes | None:
        """The answer under `key`, which becomes the most recently used."""
        with self._lock:
            answer = self._answers.get(key)
            if answer is not None:
                self._answers.move_to_end(key)
            return answer

    def put(self, key: str, answer: bytes) -> None:
        """Cache `answer`, unless it is very large."""
        with self._lock:
            self._answers.pop(key, None)
            if len(answer) <= LARGEST:
                self._answers[key] = answer
            while len(self._answers) > self._max_entries:
                self._answers.popitem(last=False)

    def close(self) -> None:
        """Does nothing, since nothing is open."""
