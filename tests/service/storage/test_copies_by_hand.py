"""Backups without `regard snapshot`, made as docs/operations.md says, in that order, are the store again."""

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import PIL.Image
import pytest

from index.catalog.catalog import Catalog
from index.catalog.changes.arrivals import Arrival
from service import serve
from service.cli.commands import doctor
from service.storage.data_dir import DataDir
from service.storage.left_behind import left_behind
from tests.support.cli_runner import Regard
from tests.support.pictures import encoded
from tests.support.project_files import ROOT
from tests.support.worker_store import COLOURS, NOW, Store, noise

NUM = 7


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[Store, dict[str, PIL.Image.Image]]]:
    made = Store(tmp_path / "data")
    pictures = {made.accept(encoded(noise(seed), "PNG"), captions=[COLOURS[seed]]): noise(seed) for seed in range(NUM)}
    made.drain()
    yield made, pictures
    made.catalog.close()


def open_copy(folder: Path, pictures: dict[str, PIL.Image.Image]) -> Store:
    """The copy after a worker ran on it, which holds these pictures whole and searchable."""
    copy = Store(folder)
    copy.drain()
    assert copy.catalog.counts() == {"ready": len(pictures), "queued": 0, "failed": 0, "deleted": 0}
    copy.check(pictures)
    for image_id in pictures:
        assert copy.originals.path(image_id, "png").is_file()
        assert copy.originals.thumbnail(image_id).is_file()
    return copy


def test_the_page_says_what_to_copy_in_which_order() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    backup = text.partition("## Backup")[2].partition("\n## ")[0]
    assert "copy the data directory" in backup
    steps = re.search(r"\.backup copy\.sqlite\"`.*then `originals/`", backup, re.DOTALL)
    assert steps, "the catalog comes before the originals that it counts"


def test_a_copy_of_everything_while_nothing_runs(
    store: tuple[Store, dict[str, PIL.Image.Image]], tmp_path: Path
) -> None:
    made, pictures = store
    made.catalog.close()
    shutil.copytree(made.folder, tmp_path / "copy")
    open_copy(tmp_path / "copy", pictures).catalog.close()


def test_the_catalog_then_the_originals_while_the_service_runs(
    store: tuple[Store, dict[str, PIL.Image.Image]], tmp_path: Path
) -> None:
    made, pictures = store
    waiting = made.accept(encoded(noise(NUM), "PNG"), captions=["waits"])
    copy = tmp_path / "copy"
    copy.mkdir()
    with (
        closing(sqlite3.connect(made.folder / "catalog.sqlite")) as source,
        closing(sqlite3.connect(copy / "catalog.sqlite")) as target,
    ):
        source.backup(target)  # what `.backup` of the command sqlite3 does
    later = made.accept(encoded(noise(NUM + 1), "PNG"))  # the service goes on between the two steps
    made.catalog.delete(next(iter(pictures)), NOW)
    made.drain()
    shutil.copytree(made.folder / "originals", copy / "originals")
    again = open_copy(copy, {**pictures, waiting: noise(NUM)})
    assert again.catalog.image(later) is None
    again.catalog.close()


def test_a_copy_without_the_log_of_the_catalog_is_told_of(
    regard: Regard,
    store: tuple[Store, dict[str, PIL.Image.Image]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, _ = store
    made.catalog.arrivals.announce([Arrival("a" * 32, "png")])  # which comes in just now, and is not missed
    coming = made.originals.path("a" * 32, "png")
    coming.parent.mkdir(parents=True)
    coming.write_bytes(b"a")
    serve.tell_of_left_behind(made.folder)
    assert left_behind(DataDir(made.folder), made.catalog) is None
    assert caplog.text == ""
    copy = shutil.copytree(made.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("*-wal", "*-shm"))
    with (copy / "regions" / "records.bin").open("ab") as records:
        records.truncate(10 * (copy / "regions" / "records.bin").stat().st_size)
    serve.tell_of_left_behind(copy)
    said = f"{NUM + 1} originals and {10 * NUM} region records are not in the catalog: was catalog.sqlite-wal left"
    assert said in caplog.text
    monkeypatch.setattr(doctor, "CHECKS", {})
    status, found, _ = regard("doctor", "--verify", "--data-dir", copy, "--json")
    assert (status, json.loads(found)["checks"][0]["found"].startswith(said)) == (1, True)
    with closing(Catalog(copy / "catalog.sqlite")) as catalog:
        assert "2 originals (of 2 looked at)" in str(left_behind(DataDir(copy), catalog, most=2))
