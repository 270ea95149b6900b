"""The file of API keys, `keys.json` in the data directory: readable by its owner alone, replaced as a whole.

It is a file of its own, beside the catalog, because it must be readable where the data directory cannot be written,
and because whoever may copy pictures and captions need not get to see who has keys.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from index.files import make_folder, sync_folder
from service.auth.api_keys import ApiKey
from service.errors import UserError
from service.storage.ballast import give_up_ballast
from service.validation_messages import plain_message

FORMAT = 1
MODE = 0o600  # digests of keys tell nobody the keys, but who has them and since when
LOCK_NAME, TEMPORARY_NAME = "keys.lock", "keys.json.tmp"


class BadKeyFile(UserError):
    """The file of keys cannot be read; the message says why."""


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: int
    keys: list[ApiKey]


_CONTENT = TypeAdapter(_Content)


def read_keys(path: Path) -> list[ApiKey]:
    """The stored keys, oldest first; none where there is no file. Raises BadKeyFile where it cannot be read."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as fault:
        raise BadKeyFile(f"{path} cannot be read: {fault.strerror}") from fault
    return parse_keys(path, text)


def parse_keys(path: Path, text: bytes) -> list[ApiKey]:
    """The keys in the content of the file. Raises BadKeyFile where it cannot be understood."""
    try:
        content = _CONTENT.validate_json(text)
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "as a whole"
        raise BadKeyFile(
            f"{path} is damaged ({place}: {plain_message(first)}); restore it from a backup, or remove it and create"
            " keys anew"
        ) from fault
    if content.format != FORMAT:
        raise BadKeyFile(f"{path} has format {content.format}; this release of Regard reads format {FORMAT}")
    return content.keys


def change_keys(path: Path, change: Callable[[list[ApiKey]], Sequence[ApiKey]]) -> None:
    """Replace the stored keys by what `change` makes of them, durably; two programs at once change one after the other.

    A reader, or a crash, sees the keys of before or after. BadKeyFile, and what `change` raises, leave all as it is.
    """
    make_folder(path.parent, private=True)
    give_up_ballast(path.parent)  # a key that was stolen is revoked on a full disk, too
    with contextlib.ExitStack() as stack:
        # The lock's file stays: removing it would let two programs lock two files.
        lock = os.open(path.with_name(LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
        stack.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        keys = list(change(read_keys(path)))
        _replace(path, _CONTENT.dump_json(_Content(format=FORMAT, keys=keys), indent=1) + b"\n")
        _give_to_folder_owner(path.with_name(LOCK_NAME))


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(TEMPORARY_NAME)
    temporary.unlink(missing_ok=True)  # of a program that was killed; under the lock nobody else writes it
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    _give_to_folder_owner(temporary)
    temporary.replace(path)
    sync_folder(path.parent)


def _give_to_folder_owner(path: Path) -> None:
    """Let the service, which owns the data directory, read what root wrote into it."""
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)
