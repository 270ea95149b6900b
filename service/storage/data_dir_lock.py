"""The right to write a data directory, which one process has at a time."""

import logging
import time
from pathlib import Path

from index.lock import Locked, WriterLock
from service.errors import Misconfigured
from service.storage.ballast import give_up_ballast
from service.storage.free_space import FORBIDDEN

PATIENCE_S = 15.0  # a worker whose parent was killed needs a moment to notice

log = logging.getLogger(__name__)


def lock_data_dir(folder: Path) -> WriterLock:
    """The writer's lock; Locked where another process has it, Misconfigured where the folder may not be written or its
    disk is full."""
    if folder.exists() and not folder.is_dir():
        raise Misconfigured(f"{folder} is a file: name a folder with --data-dir")
    give_up_ballast(folder)
    try:
        return WriterLock(folder)
    except OSError as fault:
        if fault.errno not in FORBIDDEN:
            raise
        raise Misconfigured(
            f"{folder} cannot be written ({fault.strerror}): give this user the folder, or mount it writable;"
            " `regard serve --role api` searches it as it is"
        ) from fault


def wait_for_lock(folder: Path) -> WriterLock:
    """The writer's lock, for which it waits a while. Locked, with what to do, where another process keeps it."""
    end, is_told = time.monotonic() + PATIENCE_S, False
    while True:
        try:
            return lock_data_dir(folder)
        except Locked as locked:
            if time.monotonic() >= end:
                raise Locked(
                    f"{locked}: end the `regard serve` or `regard worker` that it belongs to, name another --data-dir,"
                    " or search this one beside it with `regard serve --role api`",
                    locked.holder,
                ) from None
            if not is_told:
                log.info("%s: waiting %g s for it to end", locked, PATIENCE_S)
                is_told = True
            time.sleep(0.1)
