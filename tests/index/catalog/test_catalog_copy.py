"""A copy of a catalog stands alone."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from index.catalog.catalog import Catalog
from index.catalog.database.check import check_catalog, faults_of, text_index_fault
from index.catalog.database.copies import copy_catalog, locking_address
from index.catalog.database.faults import DamagedCatalog
from tests.support.catalogs import picture


def test_a_copy_is_one_file_that_is_read_without_another_beside_it(tmp_path: Path) -> None:
    copy = tmp_path / "copies" / "copy.sqlite"
    copy.parent.mkdir()
    with closing(Catalog(tmp_path / "catalog.sqlite")) as catalog:
        catalog.take_in([picture("a")], now=1.0)
        copy_catalog(tmp_path / "catalog.sqlite", copy)
    with closing(sqlite3.connect(copy)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert database.execute("SELECT image_id FROM images").fetchall() == [("a",)]
        assert list(copy.parent.iterdir()) == [copy]


def filled(path: Path, first: int, count: int) -> None:
    """Add pictures to a catalog that nobody has open."""
    with closing(Catalog(path)) as catalog:
        named = (f"{number:032x}" for number in range(first, first + count))
        catalog.take_in([picture(name, captions=[f"a dog {name}"]) for name in named], now=1.0)


def test_a_catalog_that_is_opened_while_it_is_copied_is_copied_whole(tmp_path: Path) -> None:
    path, copy = tmp_path / "catalog.sqlite", tmp_path / "copy.sqlite"
    filled(path, 0, 1000)
    rest = [500]

    def write(*_: int) -> None:
        while rest:
            filled(path, 1000, rest.pop())

    with closing(sqlite3.connect(locking_address(path), uri=True)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target, pages=20, progress=write)
    assert check_catalog(copy).pictures == 1500


def test_a_copy_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    filled(path, 0, 1000)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(bytes(4096 * 4))
    with pytest.raises(DamagedCatalog):
        copy_catalog(path, tmp_path / "copy.sqlite")


class NewerSqlite(sqlite3.Connection):
    """A connection whose checks find faults in the text index and one elsewhere, as SQLite tells them from 3.44 on."""

    def execute(self, sql: str, *values: Any) -> Any:
        assert "_check" in sql
        of_texts = ['fts5: checksum mismatch for table "texts"', "malformed inverted index for FTS5 table main.texts"]
        return iter([(line,) for line in [*of_texts, "a page"]])


def test_faults_of_the_text_index_are_told_by_its_own_check_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "any.sqlite", factory=NewerSqlite)) as database:
        assert faults_of(database, "integrity_check") == ["a page"]


def test_a_catalog_whose_text_index_is_damaged_is_copied(tmp_path: Path) -> None:
    path, copy = tmp_path / "catalog.sqlite", tmp_path / "copy.sqlite"
    filled(path, 0, 9)
    with closing(sqlite3.connect(path)) as database, database:
        for number, block in database.execute("SELECT id, block FROM texts_data").fetchall():
            database.execute("UPDATE texts_data SET block = ? WHERE id = ?", [block.replace(b"dog", b"fog"), number])
    copy_catalog(path, copy)
    assert check_catalog(copy).pictures == 9
    assert text_index_fault(copy) is not None
