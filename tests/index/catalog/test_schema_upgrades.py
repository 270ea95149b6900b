"""Catalogs of earlier schema versions open, hold what they held, and are like new ones from then on."""

import sqlite3
import subprocess
import sys
import tarfile
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from index.catalog.database.schema import VERSION
from index.catalog.filters import Filter
from index.records import PictureChange
from tests.support.catalogs import make_ready, picture
from tests.support.project_files import ROOT

FIXTURE = ROOT / "tests" / "data" / "release-0.1.tar.xz"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The catalog of release 0.1, schema version 1."""
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "data" / "catalog.sqlite"


def described(path: Path) -> dict[str, object]:
    """The columns of every table, and the indexes, of a catalog file."""
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {
            name: sorted(tuple(row)[1:] for row in database.execute(f"PRAGMA table_xinfo({name})")) for name in tables
        }
        made = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        unique = {
            (name, tuple(row["name"] for row in index_columns(database, index)))
            for name in tables
            for index in unique_indexes(database, name)
        }
        return {
            "version": database.execute("PRAGMA user_version").fetchone()[0],
            "columns": columns,
            "indexes": dict(database.execute(made).fetchall()),
            "unique": unique,
        }


def unique_indexes(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f"PRAGMA index_list({table})") if row[2]]


def index_columns(database: sqlite3.Connection, index: str) -> list[dict[str, str]]:
    return [{"name": row[2]} for row in database.execute(f"PRAGMA index_info({index!r})")]


def test_a_catalog_of_version_1_becomes_like_a_new_one(old: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(old)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
        before = database.execute("SELECT caption_id, image, text, slot FROM captions ORDER BY 1").fetchall()
        assert before
    with closing(Catalog(old)) as catalog:
        assert catalog.counts() == {"ready": 19, "queued": 0, "failed": 0, "deleted": 1}
        assert catalog.num_slots() == 20
        assert len(catalog.captions_at(range(catalog.num_caption_slots()))) == len(before)
        for image in catalog.list_images(None, 100):
            (best, *_) = catalog.texts.matches(image.filename, 1, Filter())
            assert best.image.filename == image.filename
        catalog.take_in([picture("new", captions=["a new one"])], now=1.0)
        make_ready(catalog, "new")
    new = tmp_path / "new.sqlite"
    Catalog(new).close()
    assert described(old) == described(new) | {"version": VERSION}
    with closing(sqlite3.connect(old)) as database:
        after = database.execute("SELECT caption_id, image, text, slot FROM captions ORDER BY 1").fetchall()
        assert after[:-1] == before
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


KILLED_AT = """
import os, pathlib, signal, sys
import index.catalog.database.schema_upgrades as upgrades
upgrades.STEPS[2] = upgrades.STEPS[2].replace("DROP TABLE captions;", "SELECT die(); DROP TABLE captions;")
import index.catalog.database.connection
make = index.catalog.database.connection.Database.connection
def connection(self):
    found = make(self)
    found.create_function("die", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
    return found
index.catalog.database.connection.Database.connection = connection
index.catalog.database.connection.Database(pathlib.Path(sys.argv[1]))
"""


def test_words_are_split_anew(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with closing(Catalog(path)) as catalog:
        catalog.take_in([picture("a", captions=["東京タワーの夜景"])], 1.0)
        make_ready(catalog, "a")
    with closing(sqlite3.connect(path)) as database, database:  # as it was with version 5
        database.execute("UPDATE texts SET captions = '東京タワーの夜景'")
        for made_since in ("images_added", "images_dated", "captions_erased", "images_deleted", "jobs_created"):
            database.execute(f"DROP INDEX {made_since}")
        database.execute("PRAGMA user_version = 5")
    with closing(Catalog(path)) as catalog:
        assert [match.image.image_id for match in catalog.texts.matches("夜景", 10, Filter())] == ["a"]
        assert [image.image_id for image in catalog.identities.page(None, 10, Filter(), "date")] == ["a"]


def test_tags_are_composed(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with closing(Catalog(path)) as catalog:
        catalog.take_in([picture("a", tags={"album": "Kühe", "numéro": 5, "o": 1}), picture("b")], 1.0)
        make_ready(catalog, "a", "b")
    with closing(sqlite3.connect(path)) as database, database:  # as version 8 kept what came apart
        apart = {form: unicodedata.normalize("NFD", form) for form in ("Kühe", "numéro")}
        database.execute("UPDATE tags SET value = ? WHERE name = 'album'", [apart["Kühe"]])
        database.execute("INSERT INTO tags SELECT image, ?, 'lion' FROM tags WHERE name = 'o'", [apart["numéro"]])
        database.execute("UPDATE texts SET tags = tags || ' lion'")
        database.execute("PRAGMA user_version = 8")
    with closing(Catalog(path)) as catalog:
        for form in ("NFC", "NFD"):
            wanted = Filter(tags={"album": unicodedata.normalize(form, "Kühe")})
            (image,) = catalog.list_images(None, 10, wanted)
            assert dict(image.tags) == {"album": "Kühe", "numéro": 5, "o": 1}
        assert catalog.texts.matches("lion", 10, Filter()) == []
        assert [match.image.image_id for match in catalog.texts.matches("numéro 5", 10, Filter())] == ["a"]


def test_an_upgrade_that_is_killed_starts_over(old: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", KILLED_AT, str(old)], cwd=ROOT, check=False)
    assert ran.returncode == -9
    with closing(sqlite3.connect(old)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
    with closing(Catalog(old)) as catalog:
        assert catalog.counts()["ready"] == 19


def test_a_catalog_of_version_7_takes_pictures_in(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    Catalog(path).close()
    new = described(path)
    with closing(sqlite3.connect(path)) as database:
        database.executescript("DROP TABLE decided_fields; PRAGMA user_version = 7;")
    with closing(Catalog(path)) as catalog:
        catalog.take_in([picture("a")], 1.0)
        catalog.change("a", PictureChange(captions=["mine"]))
        make_ready(catalog, "a", captions=["of the file"])
        image = catalog.image("a")
    assert image is not None
    assert image.captions == ("mine",)
    assert described(path) == new
