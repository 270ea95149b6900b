"""Connections to a catalog's file: one a thread, which begin and end transactions and notice a file that goes away."""

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

from index.catalog.database.faults import MissingCatalog, ReadOnlyCatalog, telling_damage
from index.catalog.database.schema import check_version, prepare
from index.catalog.filters import as_number
from index.catalog.text_index import add_functions
from index.fault_points import FaultPoint, reach
from index.files import make_folder, sync_folder

BUSY_SECONDS = 30.0  # for which a change waits at most until it may begin
LOOKS, LOOK_EVERY_S = 10, 0.05  # at a file that another process keeps
NEVER_CHANGES = "&immutable=1"  # of an address


class FileIdentity(NamedTuple):
    """The numbers by which a system tells files apart."""

    device: int
    file: int


class FileState(NamedTuple):
    """The time and size of a database's file, and whether changes lie in a log beside it."""

    changed_ns: int
    num_bytes: int
    has_wal: bool


class Connection(sqlite3.Connection):
    """Can be referred to weakly, and is closed once nobody refers to it: a thread's connection ends with the thread."""

    fixed: FileState | None = None
    """The file's state when it was opened, where SQLite was told that it never changes and would not notice; else
    None."""

    def __del__(self) -> None:
        """Close it, which is its end as ever; from Python 3.13 on, one that is left open warns."""
        with suppress(sqlite3.ProgrammingError):  # of one that could not be opened
            self.close()


class Database:
    """Connections to one catalog file. Safe from many threads and processes."""

    def __init__(self, path: Path) -> None:
        """Open the file, creating it when absent; where it may not be written, for reading alone.

        Raises UnknownSchema for a catalog of a newer version, DamagedCatalog for a file that cannot be read as one,
        ReadOnlyCatalog where it would have to be written first and may not be. Whatever reads or writes later raises
        MissingCatalog while the file is away.
        """
        self.path = path
        self._file: FileIdentity | None = None
        """The file that was opened; None until one is."""
        self._collection = ""
        self.read_only = not is_writable(path)
        self._local = threading.local()
        self._opened: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._opening = threading.Lock()
        # Threads take turns here; SQLite lets processes try again and again, which is neither fair nor quick.
        self._turn = threading.Lock()
        if self.read_only:
            self._open_for_reading()
            return
        make_folder(path.parent, private=True)
        # Two processes starting at once: SQLite does not wait when the journal mode is being changed.
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
            there = [one for one in (self.path, wal_of(self.path), shared_memory_of(self.path)) if one.exists()]
            if not all(os.access(one, os.R_OK) for one in there):
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
        """The calling thread's connection. MissingCatalog while the file that was opened is away: while its disk is not
        mounted, SQLite would make another one in its place, which the disk hides once it is back."""
        found: Connection | None = getattr(self._local, "connection", None)
        if self._file is None:  # it is being opened
            return found or self._connect()
        file = file_identity(self.path)
        if file is None:
            raise MissingCatalog(self.path)
        if found is None or self._local.file != file or self._is_outdated(found):
            found = self._connect()
            if file != self._file:  # moved back or mounted again, it may be known by another number
                self._check_collection(found)
                self._file = file
            self._local.file = file
        return found

    def _is_outdated(self, connection: Connection) -> bool:
        """Whether it reads the file as it was before a change. Not inside a transaction, which reads one state."""
        is_between = connection.fixed is not None and not connection.in_transaction
        return is_between and connection.fixed != file_state(self.path)

    def _connect(self) -> Connection:
        state = file_state(self.path)
        address = reading_address(self.path) if self.read_only else str(self.path)
        if self._file is not None and not self.read_only:
            address = f"{self.path.resolve().as_uri()}?mode=rw"  # which makes none
        # Used by this thread alone, closed perhaps by another.
        made = sqlite3.connect(
            address,
            uri=self.read_only or self._file is not None,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        made.execute("PRAGMA synchronous = FULL")
        made.execute("PRAGMA foreign_keys = ON")
        made.execute("PRAGMA secure_delete = ON")  # what is erased is overwritten, not merely let go
        made.row_factory = sqlite3.Row
        made.fixed = state if address.endswith(NEVER_CHANGES) else None
        add_functions(made)
        made.create_function("as_number", 1, as_number, deterministic=True)
        self._local.connection = made
        with self._opening:
            self._opened.add(made)
        return made

    def _check_collection(self, connection: Connection) -> None:
        try:
            found = connection.execute("SELECT id FROM collection").fetchone()["id"]
        except sqlite3.OperationalError:
            found = None
        if found != self._collection:
            self._local.connection = None
            raise MissingCatalog(self.path)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent look: everything read inside belongs to the same moment."""
        connection = self.connection()
        with telling_damage(self.path):
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")

    def read_number(self, sql: str) -> int:
        """The number that one statement gives, which is consistent without a transaction."""
        with telling_damage(self.path):
            return int(self.connection().execute(sql).fetchone()[0])

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One durable change: committed whole at the end, or not at all when anything is raised.

        sqlite3.OperationalError, with SQLite's number of a busy database, where others do not let it begin in time.
        """
        if self.read_only:
            raise ReadOnlyCatalog(f"{self.path} may not be written here: nothing can be changed")
        connection = self.connection()
        with telling_damage(self.path), self._turn_to_write(connection):
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
        """A transaction begins, after those of other threads, and of other processes.

        There is one deadline for both: behind a process that keeps the file, threads do not wait one after the other.
        """
        deadline = time.monotonic() + BUSY_SECONDS
        if not self._turn.acquire(timeout=BUSY_SECONDS):
            raise still_locked()
        try:
            left = max(0.0, deadline - time.monotonic())
            connection.execute(f"PRAGMA busy_timeout = {1000 * left:.0f}")
            try:
                connection.execute("BEGIN IMMEDIATE")
            finally:
                connection.execute(f"PRAGMA busy_timeout = {1000 * BUSY_SECONDS:.0f}")
            yield
        finally:
            self._turn.release()

    def is_kept(self) -> bool:
        """Whether no change can begin, also not in a while, in which none ends: another process keeps the file."""
        connection = self.connection()
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            before = connection.execute("PRAGMA data_version").fetchone()[0]
            for _ in range(LOOKS):
                with suppress(sqlite3.OperationalError):
                    connection.execute("BEGIN IMMEDIATE")
                    connection.execute("ROLLBACK")
                    return False
                time.sleep(LOOK_EVERY_S)
            return bool(connection.execute("PRAGMA data_version").fetchone()[0] == before)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {1000 * BUSY_SECONDS:.0f}")

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """A durable change of what is seen, which the catalog's version counts."""
        with self.writing() as connection:
            yield connection
            connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'version'")

    def close(self) -> None:
        """Close the connections of all threads; the last one folds the WAL into the file."""
        with self._opening:
            for connection in list(self._opened):
                connection.close()


def still_locked() -> sqlite3.OperationalError:
    """The error that SQLite raises where another connection does not let go of the file."""
    fault = sqlite3.OperationalError("database is locked")
    fault.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return fault


def file_identity(path: Path) -> FileIdentity | None:
    """The file that lies at a path, whatever it is called; None where none does."""
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
    """The file beside a database with the changes that are not in it yet."""
    return path.with_name(f"{path.name}-wal")


def shared_memory_of(path: Path) -> Path:
    """The file beside a database by which processes find changes in its log."""
    return path.with_name(f"{path.name}-shm")


def is_writable(path: Path) -> bool:
    """Whether the file may be written, and its folder: SQLite keeps others beside it. True where nothing is there."""
    return all(os.access(one, os.W_OK) for one in (path.parent, path) if one.exists())


def reading_address(path: Path) -> str:
    """The address by which SQLite reads the file and writes nothing beside it."""
    address = f"{path.resolve().as_uri()}?mode=ro"
    beside = [shared_memory_of(path), wal_of(path)]
    # With these files there may be a writer, whose changes SQLite finds by them; without, it would have to make them.
    return address if any(file.exists() for file in beside) else f"{address}{NEVER_CHANGES}"
