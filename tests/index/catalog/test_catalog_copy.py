"""A copy of a catalog stands alone."""

import sqlite3
from contextlib import closing
from pathlib import Path

from index.catalog.catalog import Catalog
from index.catalog.copies import copy_catalog
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
