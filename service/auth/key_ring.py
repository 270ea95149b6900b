"""The keys of a running service: read again as soon as their file changes."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from io import BufferedReader
from pathlib import Path

from service.auth.api_keys import ApiKey, create_key, token_id
from service.auth.key_file import BadKeyFile, parse_keys
from service.auth.permissions import Permission
from service.errors import InvalidKey, NotReady

log = logging.getLogger(__name__)

# Compared with where no key has the id, so that this takes as long as a wrong secret.
_NOBODY = create_key("nobody", Permission.READ, 0.0)[1]


class KeyRing:
    """Finds the key that a token belongs to. Safe to use from many threads.

    Each request looks at the file's identity, a few microseconds, so that a revoked key stops with the next request.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Read the file; BadKeyFile when there is one that cannot be read."""
        self._path = path
        self._clock = clock
        self._keys: dict[str, ApiKey] = {}
        self._own: dict[str, ApiKey] = {}
        self._fault: str | None = None
        self._doubt: Callable[[], str | None] = lambda: None
        self._stored = False
        self._file: BufferedReader | None = None
        self._state: tuple[int, ...] | None = None
        self._lock = threading.Lock()
        self._refresh()
        if self._fault is not None:
            self.close()
            raise BadKeyFile(self._fault)

    @property
    def required(self) -> bool:
        """Whether requests need a key: from the first key that is created, and to the end of the process.

        That all keys were revoked, or that their file is gone or damaged, opens nothing.
        """
        with self._lock:
            self._refresh()
            return self._stored or self._fault is not None

    def identify(self, token: str) -> ApiKey:
        """The usable key that a key or session token belongs to. Raises InvalidKey where there is none, NotReady where
        keys cannot be read."""
        key_id = token_id(token)
        with self._lock:
            self._refresh()
            fault, key = self._fault, self._own.get(key_id or "") or self._keys.get(key_id or "")
            is_own = key_id in self._own
        if fault is not None and not is_own:
            raise NotReady("The API keys cannot be read; the log of the server says why.")
        if not (key or _NOBODY).matches(token) or key is None:
            raise InvalidKey("This is no key of this service.")
        reason = key.unusable(self._clock())
        if reason is not None:
            raise InvalidKey(f"The key {key.key_id} {reason}.")
        return key

    def doubted_by(self, doubt: Callable[[], str | None]) -> None:
        """Accept no stored key while `doubt` gives a reason, which the log gets."""
        with self._lock:
            self._doubt = doubt

    def create_own(self, name: str, permission: Permission) -> str:
        """A key for a part of this process; it is stored nowhere and ends with the process."""
        key, stored = create_key(name, permission, self._clock())
        with self._lock:
            self._own[stored.key_id] = stored
        return key

    def own_keys(self) -> list[ApiKey]:
        """The keys that `create_own` made, for a process that is a part of this one."""
        with self._lock:
            return list(self._own.values())

    def accept_own(self, keys: Iterable[ApiKey], required: bool) -> None:
        """Accept the own keys of the process that this one is a part of, and require keys where that one does."""
        with self._lock:
            self._own |= {key.key_id: key for key in keys}
            self._stored = self._stored or required

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _refresh(self) -> None:
        if (doubt := self._doubt()) is not None:
            self._set_fault(doubt)
            return
        try:
            found = self._path.stat()
            state: tuple[int, ...] | None = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
        except FileNotFoundError:
            state = None
        except OSError as fault:
            self._set_fault(f"{self._path} cannot be read: {fault.strerror}")
            return
        if state != self._state or self._fault is not None:
            self._read(state)

    def _read(self, state: tuple[int, ...] | None) -> None:
        self.close()
        self._keys = {}
        if state is None:
            self._state = None
            if self._stored:  # which an unmounted disk looks like as well
                self._set_fault(f"{self._path} is gone")
            else:
                self._fault = None
            return
        try:
            # It stays open, so that no later file gets the number by which a change is noticed.
            self._file = self._path.open("rb")
            self._keys = {key.key_id: key for key in parse_keys(self._path, self._file.read())}
        except OSError as fault:
            self._set_fault(f"{self._path} cannot be read: {fault.strerror}")
        except BadKeyFile as fault:
            self._set_fault(str(fault))
        else:
            opened = os.fstat(self._file.fileno())
            self._state = (opened.st_dev, opened.st_ino, opened.st_mtime_ns, opened.st_size)
            self._fault = None
            self._stored = self._stored or bool(self._keys)

    def _set_fault(self, fault: str) -> None:
        if fault != self._fault:
            log.error("no API key is accepted: %s", fault)
        self._fault = fault
