"""The file of API keys, `keys.json` in the data directory: readable only by its owner, replaced atomically.

It is separate from the catalog because it must be readable where the data directory is not writable, and because those
who may copy pictures and captions need not see who has keys.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from index.files import half_written, make_folder, replacement_of, sync_folder
from service.auth.api_keys import ApiKey
from service.errors import UserError
from service.storage.ballast import give_up_ballast
from service.validation_messages import plain_message

FORMAT = 1
MODE = 0o600  # digests do not reveal the keys, but the file says who has them and since when
LOCK_NAME = "keys.lock"


class BadKeyFile(UserError):
    """The key file cannot be read; the message says why."""


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: int
    keys: list[ApiKey]


_CONTENT = TypeAdapter(_Content)


def read_keys(path: Path) -> list[ApiKey]:
    """The stored keys, oldest first; empty without a file. Raises BadKeyFile where it cannot be read."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as fault:
        raise BadKeyFile(f"{path} cannot be read: {fault.strerror}") from fault
    return parse_keys(path, content)


def parse_keys(path: Path, text: bytes) -> list[ApiKey]:
    """The keys in the file's content. Raises BadKeyFile where it is malformed."""
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
    """Replace the stored keys by the result of `change`, durably; concurrent programs take turns.

    Readers, and a crash, see the keys from before or after. BadKeyFile, and exceptions of `change`, leave the file
    unchanged. UserError where this user may not change it.
    """
    make_folder(path.parent, private=True)
    give_up_ballast(path.parent)  # a stolen key must be revocable on a full disk
    with contextlib.ExitStack() as stack:
        # The lock file stays: if it were removed, two programs could lock two files.
        lock = _open_lock(path.with_name(LOCK_NAME))
        stack.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        keys = list(change(read_keys(path)))
        _replace(path, _CONTENT.dump_json(_Content(format=FORMAT, keys=keys), indent=1) + b"\n")
        _give_to_folder_owner(path.with_name(LOCK_NAME))


def _open_lock(path: Path) -> int:
    """The descriptor of the lock file. Raises UserError where this user may not write it."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
    except PermissionError as fault:
        raise UserError(
            f"{path}: {fault.strerror}; run this as the user whom the data directory belongs to, or as root"
        ) from fault


def _replace(path: Path, content: bytes) -> None:
    for left in half_written(path):  # by killed programs: only the holder of the lock writes one
        left.unlink()
    with replacement_of(path, MODE) as file:
        file.write(content)
        _give_to_folder_owner(Path(file.name))
    sync_folder(path.parent)


def _give_to_folder_owner(path: Path) -> None:
    """Let the service, which owns the data directory, read a file that root wrote into it."""
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)
