"""A copy of a catalog stands alone."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from index.catalog.check import check_catalog
from index.catalog.copies import copy_catalog, locking_address
from index.catalog.faults import DamagedCatalog
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
