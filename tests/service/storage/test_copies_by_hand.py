"""Backups without `regard snapshot`, made as docs/operations.md says, in that order, are the store again."""

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import PIL.Image
import pytest

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
