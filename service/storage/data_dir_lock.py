"""The exclusive right of one process to write a data directory."""

import logging
import time
from pathlib import Path

from index.lock import Locked, WriterLock
from service.errors import Misconfigured
from service.storage.ballast import give_up_ballast
from service.storage.data_dir import DataDir
from service.storage.disk import FORBIDDEN
from service.storage.misplaced_files import refuse_misplaced_files

PATIENCE_S = 15.0  # a worker whose parent was killed needs a moment to notice

log = logging.getLogger(__name__)


def lock_data_dir(folder: Path) -> WriterLock:
    """The writer's lock. Locked where another process has it; Misconfigured where the folder is not writable, its disk
    is full, one of its paths is of the wrong kind, or it belongs to a cluster."""
    require_enterable(folder)
    if folder.exists() and not folder.is_dir():
        raise Misconfigured(f"{folder} is a file: name a folder with --data-dir")
    require_no_cluster(folder)
    refuse_misplaced_files(DataDir(folder))
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


def require_enterable(folder: Path) -> None:
    """Raise Misconfigured where this user may not enter the folder, which would otherwise look empty."""
    try:
        DataDir(folder).catalog.stat()
    except PermissionError as fault:
        raise Misconfigured(
            f"{folder} may not be entered: it belongs to another user, or its permissions, or those of a folder above"
            " it, forbid it; name another --data-dir, or change them"
        ) from fault
    except OSError:  # it is missing or no folder, which later checks report
        pass


def require_no_cluster(folder: Path) -> None:
    """Raise Misconfigured where the folder belongs to a cluster's head or node, and would look like an empty
    collection."""
    data = DataDir(folder)
    if data.cluster_plan.exists():
        raise Misconfigured(
            f"{folder} is the data directory of a cluster, whose pictures lie in its shards: `regard cluster up"
            f" --data-dir {folder}` serves them; name another --data-dir for a collection of this machine alone"
        )
    if data.is_cluster_node:
        raise Misconfigured(
            f"{folder} is the data directory of a cluster's node, whose pictures lie in {data.shards}: `regard cluster"
            " up` on the cluster's head serves them; name another --data-dir for a collection of this machine alone"
        )


def require_no_catalog(folder: Path) -> None:
    """Raise Misconfigured where the folder holds a collection of one machine, which a cluster started there would not
    show, or may not be entered."""
    require_enterable(folder)
    data = DataDir(folder)
    if data.catalog.exists() and not data.cluster_plan.exists():
        raise Misconfigured(
            f"{folder} holds the pictures of one machine, which a cluster does not find there: name another --data-dir,"
            " then take them in: `regard export` from here, `regard ingest` there"
        )


def wait_for_lock(folder: Path) -> WriterLock:
    """The writer's lock, after waiting for a while if need be. Locked, with advice, where another process keeps it."""
    deadline, is_logged = time.monotonic() + PATIENCE_S, False
    while True:
        try:
            return lock_data_dir(folder)
        except Locked as locked:
            if time.monotonic() >= deadline:
                raise Locked(
                    f"{locked}: end the `regard serve` or `regard worker` that it belongs to, name another --data-dir,"
                    " or search this one beside it with `regard serve --role api`",
                    locked.holder,
                ) from None
            if not is_logged:
                log.info("%s: waiting %g s for it to end", locked, PATIENCE_S)
                is_logged = True
            time.sleep(0.1)
