"""A catalog that may not be written is read as it is; damaged, newer and foreign files are refused in words."""

import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from index.catalog.database.check import check_catalog, text_index_fault
from index.catalog.database.faults import DamagedCatalog, ReadOnlyCatalog, UnknownSchema
from index.catalog.database.schema import VERSION
from tests.support.catalogs import make_ready, picture
from tests.support.project_files import ROOT
from tests.support.without_privilege import output_without_privilege

# Runs a program where the folder can be read alone, in a file system name space of its own.
READ_ONLY_MOUNT = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A catalog of two pictures."""
    made = tmp_path / "data" / "catalog.sqlite"
    with closing(Catalog(made)) as catalog:
        catalog.take_in([picture("a", captions=["x"]), picture("b")], now=1.0)
        make_ready(catalog, "a")
    return made


def run_on_read_only(folder: Path, program: str, *arguments: object) -> str:
    """What a program prints that sees the folder mounted for reading alone."""
    mount = ["unshare", "--map-root-user", "--mount", "sh", "-c", READ_ONLY_MOUNT, str(folder)]
    if shutil.which("unshare") is None or subprocess.run([*mount, "true"], check=False).returncode:
        pytest.skip("this machine lets no test mount a folder read-only")
    command = [*mount, sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


READ = """
import sys, pathlib
from index.catalog.catalog import Catalog
from index.catalog.filters import EVERY
from index.records import PictureChange
from index.catalog.database.faults import ReadOnlyCatalog
catalog = Catalog(pathlib.Path(sys.argv[1]))
print(catalog.read_only, catalog.counts()["ready"], [image.image_id for image in catalog.list_images(None, 9)])
assert [match.image.image_id for match in catalog.texts.matches("x", 9, EVERY)] == ["a"]
try:
    catalog.change("a", PictureChange(filename="b.jpg"))
except ReadOnlyCatalog as fault:
    print(fault)
"""


@pytest.mark.kernel
def test_a_folder_mounted_for_reading_is_read_and_not_written(path: Path) -> None:
    said = run_on_read_only(path.parent, READ, path).splitlines()
    assert said[0] == "True 1 ['a', 'b']"
    assert "may not be written" in said[1]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.kernel
def test_what_a_living_writer_has_just_committed_is_seen_on_such_a_mount(path: Path) -> None:
    with closing(Catalog(path)) as catalog:
        catalog.take_in([picture("c")], now=1.0)
        assert run_on_read_only(path.parent, READ, path).startswith("True 1 ['a', 'b', 'c']")


def test_a_writer_that_begins_after_a_reader_is_seen_by_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("index.catalog.database.connection.is_writable", lambda path: False)
        reader = Catalog(path)
    with closing(reader), closing(Catalog(path)) as writer:
        assert (reader.read_only, writer.read_only) == (True, False)
        assert [image.image_id for image in reader.list_images(None, 9)] == ["a", "b"]
        version = reader.version()
        for turn in range(3):  # changes in the log beside the file, and folded into it
            writer.take_in([picture(f"c{turn}")], now=1.0)
            assert writer.delete("b" if turn == 0 else f"c{turn - 1}", 2.0)
            assert [image.image_id for image in reader.list_images(None, 9)] == ["a", f"c{turn}"]
            assert reader.version() == writer.version() > version
            writer.erasures.fold_log()
    with closing(Catalog(path)) as writer:
        writer.take_in([picture("d")], now=3.0)
    # Nobody writes any more, and what is read is the file that was left.
    with monkeypatch.context() as patched:
        patched.setattr("index.catalog.database.connection.is_writable", lambda path: False)
        reader = Catalog(path)
    with closing(reader):
        assert "d" in [image.image_id for image in reader.list_images(None, 9)]
        with closing(Catalog(path)) as writer:
            writer.take_in([picture("e")], now=4.0)
        assert "e" in [image.image_id for image in reader.list_images(None, 9)]


OPEN = """
import sys, pathlib
from index.catalog.catalog import Catalog
from index.catalog.database.faults import ReadOnlyCatalog
try:
    print([image.image_id for image in Catalog(pathlib.Path(sys.argv[1])).list_images(None, 9)])
except ReadOnlyCatalog as fault:
    print(fault)
"""


@pytest.mark.kernel
def test_changes_that_were_not_folded_in_are_never_passed_over(path: Path) -> None:
    writer = Catalog(path)
    writer.take_in([picture("c")], now=1.0)
    copy = path.parent.parent / "copy"
    shutil.copytree(path.parent, copy)
    (copy / "catalog.sqlite-shm").unlink()
    writer.close()
    assert "open it once where it may be written" in run_on_read_only(copy, OPEN, copy / path.name)
    Catalog(copy / path.name).close()
    assert run_on_read_only(copy, OPEN, copy / path.name) == "['a', 'b', 'c']\n"


def test_an_older_catalog_or_none_is_not_opened_for_reading(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {VERSION - 1}")
    monkeypatch.setattr("index.catalog.database.connection.is_writable", lambda path: False)
    with pytest.raises(ReadOnlyCatalog, match=f"has schema {VERSION - 1} and must be brought to schema {VERSION}"):
        Catalog(path)
    with pytest.raises(ReadOnlyCatalog, match="there is none"):
        Catalog(path.with_name("none.sqlite"))


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("PRAGMA user_version = 99", rf"schema 99, this one reads up to {VERSION}\): install that version"),
        ("DROP TABLE tags; PRAGMA user_version = 0", "another program's database"),
    ],
)
def test_a_catalog_of_another_version_is_refused_and_left_alone(path: Path, sql: str, words: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(sql)
    before = path.read_bytes()
    for look in (Catalog, check_catalog):
        with pytest.raises(UnknownSchema, match=words):
            look(path)
    assert path.read_bytes() == before


def damage(path: Path, start: int, length: int) -> None:
    content = bytearray(path.read_bytes())
    content[start : start + length] = b"\xff" * length
    path.write_bytes(content)


def test_a_file_that_is_no_database_is_refused_in_words(path: Path) -> None:
    damage(path, 0, 100)
    for look in (Catalog, check_catalog):
        with pytest.raises(DamagedCatalog, match=r"is damaged \(file is not a database\): stop every process"):
            look(path)


def test_damage_inside_is_told_by_whoever_meets_it(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        size = database.execute("PRAGMA page_size").fetchone()[0]
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'images'").fetchone()
    damage(path, (root - 1) * size, size)
    with pytest.raises(DamagedCatalog, match="restore a snapshot"):
        check_catalog(path)
    with closing(Catalog(path)) as catalog, pytest.raises(DamagedCatalog, match="restore a snapshot"):
        catalog.list_images(None, 9)


def test_an_index_that_leads_astray_is_found(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        with database:
            database.execute("UPDATE images SET image_id = ? WHERE image_id = 'a'", ["a" * 32])
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = path.read_bytes()
    places = [found.start() for found in re.finditer(b"a" * 32, content)]
    assert len(places) == 2, "in the row, and in the index of ids"
    for place in places:
        path.write_bytes(content[:place] + b"b" + content[place + 1 :])
        with pytest.raises(DamagedCatalog, match="index"):
            check_catalog(path)


def test_words_that_are_indexed_wrongly_are_found(path: Path) -> None:
    assert text_index_fault(path) is None
    with closing(sqlite3.connect(path)) as database:
        blocks = database.execute("SELECT id, block FROM texts_data").fetchall()
    faults = []
    for number, block in blocks:
        for place in range(len(block)):
            flipped = block[:place] + bytes([block[place] ^ 4]) + block[place + 1 :]
            with closing(sqlite3.connect(path)) as database, database:
                database.execute("UPDATE texts_data SET block = ? WHERE id = ?", [flipped, number])
            faults.append(text_index_fault(path))
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE texts_data SET block = ? WHERE id = ?", [block, number])
    assert text_index_fault(path) is None
    assert sum(fault is not None for fault in faults) > len(faults) / 2  # not every bit says something
    assert any("words are indexed wrongly" in str(fault) for fault in faults)


def test_rows_that_belong_to_nothing_are_found(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("INSERT INTO tags VALUES (99, 'name', 'value')")
        database.commit()
    with pytest.raises(DamagedCatalog, match="a row of tags belongs to no row of images"):
        check_catalog(path)


def test_a_check_says_what_is_there_and_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    state = check_catalog(path)
    assert (state.version, state.pictures, state.is_old) == (VERSION, 2, False)
    assert path.read_bytes() == before


def test_a_catalog_that_may_not_be_read_says_so(path: Path) -> None:
    path.chmod(0)
    said = output_without_privilege("-c", OPEN, str(path))
    assert f"{path} may not be read" in said
    assert "another user, or its permissions forbid it" in said
    assert "regard serve" not in said
