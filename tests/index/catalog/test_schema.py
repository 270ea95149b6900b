"""The catalog's file: versions refused in words, many threads and processes at once."""

import gc
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from index.catalog.database.connection import Database
from tests.support.catalog_captions import captions_of
from tests.support.catalogs import make_ready, picture
from tests.support.hasty_sqlite import connect_hastily


def run_sql(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)


def test_every_connection_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_hastily(monkeypatch)
    database = Database(tmp_path / "catalog.sqlite")

    def pragmas() -> list[object]:
        connection = database.connection()
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    with ThreadPoolExecutor(1) as pool:
        assert [pragmas(), pool.submit(pragmas).result()] == [["wal", 2, 1, 30_000]] * 2
    database.close()


def test_an_error_takes_the_whole_change_back(tmp_path: Path) -> None:
    database = Database(tmp_path / "catalog.sqlite")

    def fail(error: type[BaseException]) -> None:
        with database.writing() as db:
            db.execute("INSERT INTO heartbeats VALUES ('worker', 1)")
            raise error

    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            fail(error)
    with database.reading() as db:
        assert db.execute("SELECT count(*) FROM heartbeats").fetchone()[0] == 0
    database.close()


def test_changes_wait_side_by_side_for_who_keeps_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.catalog.database.connection.BUSY_SECONDS", 2.0)
    database, other = (Database(tmp_path / "catalog.sqlite") for _ in range(2))

    def write(number: int) -> float:
        started = time.monotonic()
        with pytest.raises(sqlite3.OperationalError) as fault, database.writing():
            pass
        assert fault.value.sqlite_errorcode == sqlite3.SQLITE_BUSY
        assert database.connection().execute("PRAGMA busy_timeout").fetchone()[0] == 2000
        return time.monotonic() - started

    with other.writing(), ThreadPoolExecutor(12) as threads:
        assert max(threads.map(write, range(12))) < 12  # and not 24, one after the other
    with database.writing():
        pass
    for one in (database, other):
        one.close()


def test_a_look_belongs_to_one_moment(tmp_path: Path) -> None:
    first, second = (Database(tmp_path / "catalog.sqlite") for _ in range(2))
    with first.reading() as db:
        before = db.execute("SELECT value FROM counters").fetchone()[0]
        with second.writing() as other:
            other.execute("UPDATE counters SET value = value + 1")
        assert db.execute("SELECT value FROM counters").fetchone()[0] == before
    with first.reading() as db:
        assert db.execute("SELECT value FROM counters").fetchone()[0] == before + 1
    for database in (first, second):
        database.close()


def test_the_connection_of_a_thread_ends_with_the_thread(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.sqlite")
    for _ in range(20):
        thread = threading.Thread(target=catalog.version)
        thread.start()
        thread.join()
    gc.collect()
    assert len(catalog._database._opened) == 1
    catalog.close()


def test_many_open_a_new_catalog_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def open_one() -> int:
        together.wait()
        with closing(Catalog(tmp_path / "catalog.sqlite")) as catalog:
            return catalog.version()

    with ThreadPoolExecutor(8) as pool:
        assert [task.result() for task in [pool.submit(open_one) for _ in range(8)]] == [0] * 8


WRITER = """
import sys, pathlib
from index.catalog.catalog import Catalog
from tests.support.catalogs import picture
me = sys.argv[2]
for number in range(12):  # opens each time: the first ones race to make the file
    catalog = Catalog(pathlib.Path(sys.argv[1]))
    catalog.take_in([picture(f"{me}-{number}", captions=["x"]), picture(f"shared-{number}", captions=[me])], 0.0)
    catalog.processes.heartbeat(me, float(number))
    if number % 5 == 0:
        catalog.close()
"""


def test_processes_and_threads_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "new" / "catalog.sqlite"
    names = "abc"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in names]
    catalog = Catalog(path)

    def write(thread: int) -> None:
        for number in range(12):
            catalog.take_in([picture(f"{thread}-{number}"), picture(f"shared-{number}", captions=[str(thread)])], 0.0)

    def work() -> int:
        done = 0
        while any(writer.poll() is None for writer in writers) or catalog.queue.waiting(1):
            batch = [waiting.image_id for waiting in catalog.queue.waiting(7)]
            make_ready(catalog, *batch)
            done += len(batch)
            assert catalog.visible().all()
        return done

    with ThreadPoolExecutor(4) as pool:
        tasks = [pool.submit(write, thread) for thread in range(3)]
        worked = pool.submit(work)
        for task in tasks:
            task.result()
        assert [writer.wait() for writer in writers] == [0] * len(names)
        worked.result()
    make_ready(catalog, *(waiting.image_id for waiting in catalog.queue.waiting(1000)))
    assert catalog.counts()["ready"] == catalog.num_slots() == 12 * (3 + 3 + 1)
    shared = captions_of(catalog, [f"shared-{number}" for number in range(12)])
    assert all({caption.text for caption in captions} == set(names) | {"0", "1", "2"} for captions in shared.values())
    slots = [caption.slot for captions in shared.values() for caption in captions]
    assert len(set(slots)) == 12 * 6
    assert catalog.num_caption_slots() == 12 * (3 + 6)
    catalog.close()
