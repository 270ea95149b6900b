"""Snapshots that were damaged, cut or made up are refused whole, and leave nothing."""

import errno
import io
import json
import os
import shutil
import sqlite3
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from index.catalog.catalog import Catalog
from index.records import RegionStoreEntry
from service.errors import UserError
from service.storage.snapshots import restoration
from service.storage.snapshots.restoration import restore_snapshot
from service.storage.snapshots.snapshot import take_snapshot
from service.storage.verification import find_damage
from tests.support.feature_layouts import THEIRS, take_in, theirs
from tests.support.pictures import encoded
from tests.support.worker_store import COLOURS, Store, noise

NUM = 4


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Some pictures, the last of which waits."""
    made = Store(tmp_path / "data")
    for seed in range(NUM - 1):
        made.accept(encoded(noise(seed), "PNG"), captions=[COLOURS[seed]])
    made.drain()
    made.accept(encoded(noise(NUM - 1), "PNG"), captions=["waits"])
    yield made
    made.catalog.close()


def test_a_restore_into_a_folder_with_files_is_refused(store: Store, tmp_path: Path) -> None:
    take_snapshot(store.folder, tmp_path / "copy")
    with pytest.raises(UserError, match="is not empty"):
        restore_snapshot(tmp_path / "copy", store.folder)


def test_a_restore_into_a_link_to_nothing_names_what_is_missing(store: Store, tmp_path: Path) -> None:
    take_snapshot(store.folder, tmp_path / "copy")
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    with pytest.raises(UserError, match=r"link is a link to .*disk, which is not there: make that folder first"):
        restore_snapshot(tmp_path / "copy", tmp_path / "link")
    (tmp_path / "disk").mkdir()
    assert restore_snapshot(tmp_path / "copy", tmp_path / "link")["ready"] == NUM - 1


def broken(change: Callable[[Path], object]) -> Callable[[Path], object]:
    """A change of the catalog of a snapshot."""
    return lambda folder: change(folder / "catalog.sqlite")


def run_sql(sql: str) -> Callable[[Path], object]:
    def run(path: Path) -> None:
        with closing(sqlite3.connect(path)) as database:
            database.executescript(sql)

    return broken(run)


def original_of(folder: Path) -> Path:
    return next(path for path in (folder / "originals").rglob("*") if path.is_file())


def replace_original(folder: Path) -> None:
    path = original_of(folder)
    path.unlink()  # it is a link to the store's own
    path.write_bytes(b"another picture")


def lose_original(folder: Path) -> None:
    original_of(folder).unlink()


HARMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (lambda folder: (folder / "snapshot.json").unlink(), "not a whole snapshot"),
    "other form": (lambda folder: (folder / "snapshot.json").write_text('{"format": 9}'), "of a form"),
    "lost original": (lose_original, "is not whole: of its 1 pictures without a file only 0"),
    "no count": (lambda folder: (folder / "snapshot.json").write_text('{"format": 1}'), "of a form"),
    "no catalog": (lambda folder: (folder / "catalog.sqlite").unlink(), "not a whole snapshot"),
    "damaged catalog": (broken(lambda path: path.write_bytes(b"x" * 5000)), "is damaged"),
    "stranger": (lambda folder: (folder / "run.sh").write_text("rm"), "which no snapshot does"),
    "other picture": (replace_original, "not the picture that was taken in"),
    "link": (lambda folder: (folder / "keys.json").symlink_to("/etc/passwd"), "no plain file"),
    "linked folder": (lambda folder: (folder / "extractor").symlink_to("/etc"), "no plain file"),
    "trigger": (
        run_sql("CREATE TRIGGER bad AFTER UPDATE ON images BEGIN DELETE FROM images; END"),
        "it holds bad, which no catalog does",
    ),
    "table": (run_sql("CREATE TABLE more (x)"), "not those of a catalog"),
    "virtual table": (run_sql("CREATE VIRTUAL TABLE more USING fts5 (x)"), "it holds more, which no catalog does"),
    "other text index": (
        run_sql("DROP TABLE texts; CREATE VIRTUAL TABLE texts USING fts5 (filename, content = 'images')"),
        "it holds texts, which no catalog does",
    ),
    "id": (run_sql("UPDATE images SET image_id = '../../../../etc/x' WHERE number = 1"), "cannot be the id"),
    "extension": (run_sql("UPDATE images SET extension = 'png/../x' WHERE number = 1"), "cannot be the extension"),
    "folder": (
        run_sql("INSERT INTO region_stores (extractor, folder, state) VALUES ('x', 'regions/../..', 'current')"),
        "cannot be the folder of a region store",
    ),
    "slots": (run_sql("UPDATE images SET slot = 1000000000000 WHERE slot = 0"), "slots of regions are missing"),
}


def say_catalog_is_whole(folder: Path) -> None:
    """As whoever makes up a snapshot would."""
    about, catalog = folder / "snapshot.json", folder / "catalog.sqlite"
    if about.exists() and catalog.exists():
        digest = sha256(catalog.read_bytes()).hexdigest()
        about.write_text(json.dumps({**json.loads(about.read_text()), "catalog_sha256": digest}))


@pytest.mark.parametrize("harm", HARMS)
def test_nothing_in_a_snapshot_is_trusted(store: Store, tmp_path: Path, harm: str) -> None:
    do, words = HARMS[harm]
    take_snapshot(store.folder, tmp_path / "copy")
    do(tmp_path / "copy")
    say_catalog_is_whole(tmp_path / "copy")
    for skip_damaged in [False] if harm in ("lost original", "other picture") else [False, True]:
        with pytest.raises(UserError, match=words):
            restore_snapshot(tmp_path / "copy", tmp_path / "restored", skip_damaged=skip_damaged)
        assert not (tmp_path / "restored").exists()


@pytest.mark.parametrize("name", ["copy", "copy.tar"])
def test_everything_but_damaged_originals_is_restored_on_demand(store: Store, tmp_path: Path, name: str) -> None:
    """A snapshot of a store with a damaged original, which nobody may have noticed, is still a backup."""
    told = list[str]()
    lost, damaged, *_ = sorted(path for path in (store.folder / "originals").rglob("*") if path.is_file())
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    take_snapshot(store.folder, tmp_path / "copy")
    (tmp_path / "copy" / lost.relative_to(store.folder)).unlink()
    if name.endswith(".tar"):
        with tarfile.open(tmp_path / name, "w") as archive:
            for path in (path for path in (tmp_path / "copy").rglob("*") if path.is_file()):
                archive.add(path, path.relative_to(tmp_path / "copy"))
    with pytest.raises(UserError, match="--skip-damaged"):
        restore_snapshot(tmp_path / name, tmp_path / "restored")
    restored = tmp_path / "restored"
    assert sum(restore_snapshot(tmp_path / name, restored, tell=told.append, skip_damaged=True).values()) == NUM
    assert damaged.name in told[0]
    assert told[1].startswith("2 pictures have no original: send their files again (")
    kept = {path.relative_to(restored / "originals") for path in (restored / "originals").rglob("*.*")}
    whole = {path.relative_to(store.folder / "originals") for path in (store.folder / "originals").rglob("*.*")}
    assert whole - kept == {path.relative_to(store.folder / "originals") for path in (lost, damaged)}
    assert len(list(find_damage(restored))) == 2


class FailingDisk(io.BytesIO):
    """A file whose content cannot be read."""

    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("unreadable", ["originals/", "catalog.sqlite"])
def test_an_original_that_the_disk_cannot_read_is_left_out_on_demand(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unreadable: str
) -> None:
    take_snapshot(store.folder, tmp_path / "copy")
    files_below, told = restoration._files_below, list[str]()

    def failing(source: Path) -> Iterator[tuple[str, Any]]:
        left = True
        for name, content in files_below(source):
            fails, left = left and name.startswith(unreadable), left and not name.startswith(unreadable)
            yield name, FailingDisk() if fails else content

    monkeypatch.setattr(restoration, "_files_below", failing)
    with pytest.raises(UserError, match=r"is damaged: it cannot be read \(Input/output error\)"):
        restore_snapshot(tmp_path / "copy", tmp_path / "restored")
    if unreadable == "originals/":
        restore_snapshot(tmp_path / "copy", tmp_path / "restored", tell=told.append, skip_damaged=True)
        assert "it cannot be read (Input/output error)" in told[0]
        assert len(list(find_damage(tmp_path / "restored"))) == 1


def test_half_a_text_index_is_refused_or_made_anew(store: Store, tmp_path: Path) -> None:
    """It depends on the version of SQLite whether an index without one of its tables can be made anew."""
    take_snapshot(store.folder, tmp_path / "copy")
    run_sql("DROP TABLE texts_data")(tmp_path / "copy")
    say_catalog_is_whole(tmp_path / "copy")
    restored = tmp_path / "restored"
    try:
        restore_snapshot(tmp_path / "copy", restored)
    except UserError:
        assert not restored.exists()
    else:
        assert list(find_damage(restored)) == []


@pytest.mark.parametrize("place", [200, 4096, -100])
def test_a_catalog_that_was_damaged_on_its_way_is_refused(store: Store, tmp_path: Path, place: int) -> None:
    take_snapshot(store.folder, tmp_path / "copy")
    path, about = tmp_path / "copy" / "catalog.sqlite", tmp_path / "copy" / "snapshot.json"
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[place] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(UserError, match="is damaged: it is not the one that was copied"):
        restore_snapshot(tmp_path / "copy", tmp_path / "restored")
    path.write_bytes(whole)
    of_before = {name: value for name, value in json.loads(about.read_text()).items() if name != "catalog_sha256"}
    about.write_text(json.dumps(of_before))  # as snapshots of release 0.1 are
    assert sum(restore_snapshot(tmp_path / "copy", tmp_path / "restored").values()) == NUM


def test_a_folder_is_as_empty_after_a_failed_restore_as_before(store: Store, tmp_path: Path) -> None:
    take_snapshot(store.folder, tmp_path / "whole.tar")
    (tmp_path / "cut.tar").write_bytes((tmp_path / "whole.tar").read_bytes()[:-20_000])
    restored = tmp_path / "restored"
    restored.mkdir()
    with pytest.raises(UserError, match=r"was cut|not a whole snapshot"):
        restore_snapshot(tmp_path / "cut.tar", restored)
    assert list(restored.iterdir()) == []

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore_snapshot(tmp_path / "whole.tar", restored, each=stop)
    assert list(restored.iterdir()) == []
    assert sum(restore_snapshot(tmp_path / "whole.tar", restored).values()) == NUM


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, link, 1 if kind == tarfile.REGTYPE else 0
    return made


@pytest.mark.parametrize(
    "bad",
    [
        member("../escaped"),
        member("/tmp/escaped"),
        member("originals/aa/bb/../../../../escaped"),
        member("originals/aa/bb/" + "a" * 32 + ".png"),
        member("regions/../escaped/records.bin"),
        member("regions/..hidden/records.bin"),
        member("catalog.sqlite-wal"),
        member("originals", tarfile.SYMTYPE, "/etc"),
        member("catalog.sqlite", tarfile.LNKTYPE, "/etc/passwd"),
        member("regions", tarfile.DIRTYPE),
        member("regions/records.bin", tarfile.FIFOTYPE),
    ],
    ids=lambda one: one.name.replace("/", "-"),
)
def test_no_name_in_an_archive_is_trusted(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        archive.addfile(bad, io.BytesIO(b"x"))
    with pytest.raises(UserError, match="nothing of it is used"):
        restore_snapshot(tmp_path / "bad.tar", tmp_path / "deep" / "restored")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["bad.tar", "deep"]


def test_the_same_name_twice_and_no_archive_are_refused(tmp_path: Path) -> None:
    about = json.dumps({"format": 1}).encode()
    with tarfile.open(tmp_path / "twice.tar", "w") as archive:
        for _ in range(2):
            one = tarfile.TarInfo("snapshot.json")
            one.size = len(about)
            archive.addfile(one, io.BytesIO(about))
    with pytest.raises(UserError, match="twice"):
        restore_snapshot(tmp_path / "twice.tar", tmp_path / "a")
    (tmp_path / "no.tar").write_bytes(b"x" * 2000)
    with pytest.raises(UserError, match="is no snapshot"):
        restore_snapshot(tmp_path / "no.tar", tmp_path / "b")


def test_what_a_copy_of_a_snapshot_lacks_and_can_be_made_again_is_told(store: Store, tmp_path: Path) -> None:
    told = list[str]()
    take_snapshot(store.folder, tmp_path / "copy")
    restore_snapshot(tmp_path / "copy", tmp_path / "whole", tell=told.append)
    assert told == []
    records = tmp_path / "copy" / "regions" / "records.bin"
    records.write_bytes(records.read_bytes()[: records.stat().st_size // (NUM - 1)])
    shutil.rmtree(tmp_path / "copy" / "thumbnails")
    restore_snapshot(tmp_path / "copy", tmp_path / "lacking", tell=told.append)
    assert told == [
        "regions of 2 of 3 are missing and are found anew while it runs",
        "thumbnails of 3 of 3 are missing and are made anew while it runs",
    ]


def test_features_without_pictures_that_a_copy_lacks_are_told_loudly(tmp_path: Path) -> None:
    told = list[str]()
    take_in(theirs(tmp_path), tmp_path / "data")
    take_snapshot(tmp_path / "data", tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "regions")
    restore_snapshot(tmp_path / "copy", tmp_path / "restored", tell=told.append)
    (loud,) = told
    assert loud.startswith("LOST: 5 of these are known by features alone, which the snapshot lacks")


def test_features_that_are_lost_are_no_regions_to_find_anew_in_any_store(tmp_path: Path) -> None:
    told = list[str]()
    take_in(theirs(tmp_path), tmp_path / "data")
    with closing(Catalog(tmp_path / "data" / "catalog.sqlite")) as catalog:  # in the midst of a new detector's work
        catalog.region_stores.replace(
            [
                RegionStoreEntry(extractor="anew", folder="regions/anew", state="current", records=2),
                RegionStoreEntry(extractor=THEIRS, folder="regions", state="former", records=5),
            ]
        )
    take_snapshot(tmp_path / "data", tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "regions")
    restore_snapshot(tmp_path / "copy", tmp_path / "restored", tell=told.append)
    (loud,) = told
    assert loud.startswith("LOST: 5 of these are known by features alone, which the snapshot lacks")
