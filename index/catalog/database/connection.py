"""Connections to a catalog's file, one for each thread: they run transactions and notice when the file disappears."""

import fcntl
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from index.catalog.database.faults import DamagedCatalog, MissingCatalog, ReadOnlyCatalog, telling_damage
from index.catalog.database.schema import check_version, prepare
from index.catalog.filters import as_number
from index.catalog.text_index import add_functions
from index.fault_points import FaultPoint, reach
from index.files import make_folder, sync_folder

BUSY_SECONDS = 30.0  # the longest that a change waits until it may begin
LOCK_TRIES, LOCK_RETRY_S = 10, 0.05  # for a file that another process keeps locked
NEVER_CHANGES = "&immutable=1"  # an option of a database's URI


class FileIdentity(NamedTuple):
    """The device and inode numbers that identify a file."""

    device: int
    file: int


class FileState(NamedTuple):
    """The modification time and size of a database's file, and whether a write-ahead log lies beside it."""

    changed_ns: int
    num_bytes: int
    has_wal: bool


class Connection(sqlite3.Connection):
    """A connection that supports weak references and is closed once unreferenced, and so ends with its thread."""

    fixed: FileState | None = None
    """The file's state at opening if SQLite was told that the file never changes, so that it would miss changes; else
    None."""

    def __del__(self) -> None:
        """Close the connection. From Python 3.13 on, one left open raises a warning."""
        with suppress(sqlite3.ProgrammingError):  # raised for a connection that could not be opened
            self.close()


class Database:
    """Connections to one catalog file. Safe to share between threads and processes."""

    def __init__(self, path: Path) -> None:
        """Open the file, creating it when absent; read-only where it may not be written.

        Raises UnknownSchema for a catalog of a newer version, DamagedCatalog for a file that is no readable catalog,
        ReadOnlyCatalog where it would first have to be written and may not be. Later reads and writes raise
        MissingCatalog while the file is away.
        """
        self.path = path
        self._file: FileIdentity | None = None
        """The identity of the opened file; None until it is open."""
        self._damaged: FileIdentity | None = None
        self._collection = ""
        self.read_only = not is_writable(path)
        self._local = threading.local()
        self._opened: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._opened_lock = threading.Lock()
        # Threads queue here: SQLite's own waiting is by repeated tries, which is neither fair nor quick.
        self._turn = threading.Lock()
        if self.read_only:
            self._open_for_reading()
            return
        make_folder(path.parent, private=True)
        # Locked against a process that starts at the same time: SQLite does not wait while a journal mode changes.
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            with telling_damage(self.path):
                prepare(self.connection(), path)
            sync_folder(path.parent)
            self._keep_identity()
        except BaseException:
            self.close()
            raise
        finally:
            os.close(folder)

    def _open_for_reading(self) -> None:
        try:
            with telling_damage(self.path):
                check_version(self.connection(), self.path)
            self._keep_identity()
        except sqlite3.OperationalError as fault:
            self.close()
            existing = [file for file in (self.path, wal_of(self.path), shared_memory_of(self.path)) if file.exists()]
            if not all(os.access(file, os.R_OK) for file in existing):
                raise ReadOnlyCatalog(
                    f"{self.path} may not be read ({fault}): it, or a file beside it, belongs to another user, or its"
                    " permissions forbid it; give the whole data directory to this user"
                ) from fault
            raise ReadOnlyCatalog(
                f"{self.path} cannot be read where it may not be written ({fault}): there is none, or it holds changes"
                " that were not folded into the file; open it once where it may be written, with `regard serve`"
            ) from fault
        except BaseException:
            self.close()
            raise

    def _keep_identity(self) -> None:
        connection = self.connection()
        self._collection = connection.execute("SELECT id FROM collection").fetchone()["id"]
        self._file = self._local.file = file_identity(self.path)

    def connection(self) -> Connection:
        """The calling thread's connection. MissingCatalog while the opened file is away: with its disk unmounted,
        SQLite would create an empty file in its place, which the disk would hide once mounted again."""
        connection: Connection | None = getattr(self._local, "connection", None)
        if self._file is None:  # still opening
            return connection or self._connect()
        file = file_identity(self.path)
        if file is None:
            raise MissingCatalog(self.path)
        if connection is None or self._local.file != file or self._is_outdated(connection):
            connection = self._connect()
            if file != self._file:  # a file that was moved back or mounted again may have another identity
                self._check_collection(connection)
                self._file = file
            self._local.file = file
        return connection

    def _is_outdated(self, connection: Connection) -> bool:
        """Whether the connection still shows the file before a change. False inside a transaction, which sees one
        state."""
        may_reopen = connection.fixed is not None and not connection.in_transaction
        return may_reopen and connection.fixed != file_state(self.path)

    def _connect(self) -> Connection:
        state = file_state(self.path)
        address = reading_address(self.path) if self.read_only else str(self.path)
        if self._file is not None and not self.read_only:
            address = f"{self.path.resolve().as_uri()}?mode=rw"  # which creates no file
        # check_same_thread: only this thread uses it, but another may close it.
        connection = sqlite3.connect(
            address,
            uri=self.read_only or self._file is not None,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # deleted rows are overwritten, not merely freed
        connection.row_factory = sqlite3.Row
        connection.fixed = state if address.endswith(NEVER_CHANGES) else None
        add_functions(connection)
        connection.create_function("as_number", 1, as_number, deterministic=True)
        self._local.connection = connection
        with self._opened_lock:
            self._opened.add(connection)
        return connection

    def _check_collection(self, connection: Connection) -> None:
        try:
            collection_id = connection.execute("SELECT id FROM collection").fetchone()["id"]
        except sqlite3.OperationalError:
            collection_id = None
        if collection_id != self._collection:
            self._local.connection = None
            raise MissingCatalog(self.path)

    @property
    def is_damaged(self) -> bool:
        """Whether a read or write met damage in the present file."""
        return self._damaged is not None and self._damaged == self._file

    @contextmanager
    def _noting_damage(self) -> Iterator[None]:
        try:
            with telling_damage(self.path):
                yield
        except DamagedCatalog:
            self._damaged = self._file
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read transaction: everything read inside belongs to the same moment."""
        with self._noting_damage():
            connection = self.connection()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")

    def read_number(self, sql: str) -> int:
        """The number that one statement returns; a single statement is consistent without a transaction."""
        with self._noting_damage():
            return int(self.connection().execute(sql).fetchone()[0])

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A durable write transaction: committed whole at the end, or rolled back when anything is raised.

        Raises sqlite3.OperationalError with SQLITE_BUSY where other writers do not let it begin in time.
        """
        if self.read_only:
            raise ReadOnlyCatalog(f"{self.path} may not be written here: nothing can be changed")
        with self._noting_damage(), self._turn_to_write(connection := self.connection()):
            try:
                yield connection
                reach(FaultPoint.BEFORE_COMMIT)
                connection.execute("COMMIT")
                reach(FaultPoint.AFTER_COMMIT)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _turn_to_write(self, connection: Connection) -> Iterator[None]:
        """Begin a transaction after those of other threads and processes.

        One deadline covers both waits: while another process locks the file, threads do not time out one after the
        other.
        """
        deadline = time.monotonic() + BUSY_SECONDS
        if not self._turn.acquire(timeout=BUSY_SECONDS):
            raise still_locked()
        try:
            seconds_left = max(0.0, deadline - time.monotonic())
            connection.execute(f"PRAGMA busy_timeout = {1000 * seconds_left:.0f}")
            try:
                connection.execute("BEGIN IMMEDIATE")
            finally:
                connection.execute(f"PRAGMA busy_timeout = {1000 * BUSY_SECONDS:.0f}")
            yield
        finally:
            self._turn.release()

    def is_kept(self) -> bool:
        """Whether another process keeps the file locked: no change can begin for a while, and none is committed
        either."""
        connection = self.connection()
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            version = connection.execute("PRAGMA data_version").fetchone()[0]
            for _ in range(LOCK_TRIES):
                with suppress(sqlite3.OperationalError):
                    connection.execute("BEGIN IMMEDIATE")
                    connection.execute("ROLLBACK")
                    return False
                time.sleep(LOCK_RETRY_S)
            return bool(connection.execute("PRAGMA data_version").fetchone()[0] == version)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {1000 * BUSY_SECONDS:.0f}")

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """A durable change of visible data, which advances the catalog's version."""
        with self.writing() as connection:
            yield connection
            connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'version'")

    def close(self) -> None:
        """Close the connections of all threads; the last one folds the WAL into the file."""
        with self._opened_lock:
            for connection in list(self._opened):
                connection.close()


def still_locked() -> sqlite3.OperationalError:
    """The error that SQLite raises while another connection keeps the file locked."""
    fault = sqlite3.OperationalError("database is locked")
    fault.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return fault


def file_identity(path: Path) -> FileIdentity | None:
    """The identity of the file at a path; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return FileIdentity(status.st_dev, status.st_ino)


def file_state(path: Path) -> FileState | None:
    """The state of a database's file; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return FileState(status.st_mtime_ns, status.st_size, wal_of(path).exists())


def wal_of(path: Path) -> Path:
    """The write-ahead log beside a database."""
    return path.with_name(f"{path.name}-wal")


def shared_memory_of(path: Path) -> Path:
    """The shared-memory index of a database's write-ahead log."""
    return path.with_name(f"{path.name}-shm")


def is_writable(path: Path) -> bool:
    """Whether the file and its folder, where SQLite puts other files, may be written. True where neither exists."""
    return all(os.access(part, os.W_OK) for part in (path.parent, path) if part.exists())


def reading_address(path: Path) -> str:
    """The URI with which SQLite reads the file and writes nothing beside it."""
    address = f"{path.resolve().as_uri()}?mode=ro"
    beside = [shared_memory_of(path), wal_of(path)]
    # With these files SQLite notices a writer's changes; without them it would have to create them.
    return address if any(file.exists() for file in beside) else f"{address}{NEVER_CHANGES}"
