"""The keys of a running service, reloaded as soon as their file changes."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from io import BufferedReader
from pathlib import Path

from service.auth.api_keys import TICKET, ApiKey, create_key, token_id
from service.auth.key_file import BadKeyFile, parse_keys
from service.auth.permissions import Permission
from service.errors import InvalidKey, NotReady

log = logging.getLogger(__name__)

# Compared with tokens of unknown ids, so that these take as long as wrong secrets.
_NOBODY = create_key("nobody", Permission.READ, 0.0)[1]


class KeyRing:
    """Finds the key that a token belongs to. Safe to share between threads.

    Each request checks the file's identity, which takes microseconds, so that a revoked key fails from the next request
    on.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Read the file; BadKeyFile where it exists but cannot be read."""
        self._path = path
        self._clock = clock
        self._keys: dict[str, ApiKey] = {}
        self._process_keys: dict[str, ApiKey] = {}  # valid for this process only, and not stored
        self._fault: str | None = None
        self._doubt: Callable[[], str | None] = lambda: None
        self._required = False
        self._file: BufferedReader | None = None
        self._state: tuple[int, ...] | None = None
        self._lock = threading.Lock()
        self._refresh()
        if self._fault is not None:
            self.close()
            raise BadKeyFile(self._fault)

    @property
    def required(self) -> bool:
        """Whether requests need a key: from the creation of the first key to the end of the process.

        Revoking all keys, or losing or damaging their file, does not open the service.
        """
        with self._lock:
            self._refresh()
            return self._required or self._fault is not None

    def ticket(self, key_id: str, purpose: str, lasts_s: int) -> str:
        """A ticket of a key. Raises InvalidKey where the key is gone."""
        with self._lock:
            key = self._process_keys.get(key_id) or self._keys.get(key_id)
        if key is None:
            raise InvalidKey("This is no key of this service.")
        return key.ticket(int(self._clock()) + lasts_s, purpose)

    def redeem(self, ticket: str) -> tuple[ApiKey, str]:
        """The usable key of a ticket, and its purpose. Raises InvalidKey where it is none or is over, NotReady as
        `identify`."""
        parts = TICKET.fullmatch(ticket)
        if parts is None:
            raise InvalidKey("The ticket is malformed.")
        key = self.identify(ticket)
        if int(parts[2]) <= self._clock():
            raise InvalidKey("The ticket is over; ask for another one.")
        return key, parts[3]

    def identify(self, token: str) -> ApiKey:
        """The usable key that a key, session token or ticket belongs to. Raises InvalidKey where there is none,
        NotReady where keys cannot be read."""
        key_id = token_id(token)
        with self._lock:
            self._refresh()
            fault, key = self._fault, self._process_keys.get(key_id or "") or self._keys.get(key_id or "")
            is_process_key = key_id in self._process_keys
        if fault is not None and not is_process_key:
            raise NotReady("The API keys cannot be read; the log of the server says why.")
        if not (key or _NOBODY).matches(token) or key is None:
            raise InvalidKey("This is no key of this service.")
        reason = key.unusable(self._clock())
        if reason is not None:
            raise InvalidKey(f"The key {key.key_id} {reason}.")
        return key

    def doubted_by(self, doubt: Callable[[], str | None]) -> None:
        """Accept no stored key while `doubt` returns a reason, which is logged."""
        with self._lock:
            self._doubt = doubt

    def create_own(self, name: str, permission: Permission) -> str:
        """A key for a component of this process; it is not stored and expires with the process."""
        key, stored = create_key(name, permission, self._clock())
        with self._lock:
            self._process_keys[stored.key_id] = stored
        return key

    def own_keys(self) -> list[ApiKey]:
        """The keys made by `create_own`, for a child process of this one."""
        with self._lock:
            return list(self._process_keys.values())

    def accept_own(self, keys: Iterable[ApiKey], required: bool) -> None:
        """Accept the own keys of the parent process, and require keys where the parent does."""
        with self._lock:
            self._process_keys |= {key.key_id: key for key in keys}
            self._required = self._required or required

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
            status = self._path.stat()
            state: tuple[int, ...] | None = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
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
            if self._required:  # the disk may just be unmounted
                self._set_fault(f"{self._path} is gone")
            else:
                self._fault = None
            return
        try:
            # It stays open, so that no later file gets its inode number, which would hide the change.
            self._file = self._path.open("rb")
            self._keys = {key.key_id: key for key in parse_keys(self._path, self._file.read())}
        except OSError as fault:
            self._set_fault(f"{self._path} cannot be read: {fault.strerror}")
        except BadKeyFile as fault:
            self._set_fault(str(fault))
        else:
            status = os.fstat(self._file.fileno())
            self._state = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
            self._fault = None
            self._required = self._required or bool(self._keys)

    def _set_fault(self, fault: str) -> None:
        if fault != self._fault:
            log.error("no API key is accepted: %s", fault)
        self._fault = fault
