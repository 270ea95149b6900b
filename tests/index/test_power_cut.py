"""What a power cut leaves: only bytes and names that were fsynced. SQLite keeps its own promises, and is not here."""

import os
from pathlib import Path

import numpy as np
import pytest

from index import files
from index.views.ragged import RaggedSlab
from index.views.shortlist import inverted_part
from index.views.shortlist_files import load_part, save_part
from index.views.slab import Slab
from index.views.view import View
from index.views.view_writer import ViewWriter
from tests.support import small_views as views
from tests.support.power_cut import Disk
from tests.support.slab_records import LAYOUT, records, same


@pytest.fixture(name="disk")
def a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path / "disk", monkeypatch)


def test_records_appended_are_there_after_a_power_cut(disk: Disk, tmp_path: Path) -> None:
    slab = Slab.open(disk.folder / "some" / "where", LAYOUT, write=True)
    for number in range(4):
        slab.append(number, records(1, seed=number))
        left = disk.left(tmp_path / f"left-{number}") / "some" / "where"
        for row in range(number + 1):
            same(Slab.open(left, LAYOUT, write=False).read([row]), records(1, seed=row))


def test_what_a_view_published_is_there_after_a_power_cut(disk: Disk, tmp_path: Path) -> None:
    writer = ViewWriter(disk.folder / "views" / "model", **views.ABOUT)
    for number in range(4):
        writer.add_images(number, *views.images(number, number + 1))
        views.check(View(disk.left(tmp_path / f"one-{number}") / "views" / "model").snapshot(), number + 1, 2 * number)
        writer.add_captions(2 * number, *views.captions(2 * number, 2 * number + 2))
        views.check(
            View(disk.left(tmp_path / f"two-{number}") / "views" / "model").snapshot(), number + 1, 2 * number + 2
        )
    writer.cut_back(2, 3)
    views.check(View(disk.left(tmp_path / "cut") / "views" / "model").snapshot(), 2, 3)


def test_records_that_were_blanked_stay_so_after_a_power_cut(disk: Disk, tmp_path: Path) -> None:
    slab = Slab.open(disk.folder / "slab", LAYOUT, write=True)
    slab.append(0, records(3))
    assert slab.blank([1]) == 1
    left = Slab.open(disk.left(tmp_path / "left") / "slab", LAYOUT, write=False)
    left.check(1)
    assert not any(array.any() for array in left.read([1]).values())
    same(left.read([0, 2]), {name: array[[0, 2]] for name, array in records(3).items()})


def test_words_that_were_blanked_stay_so_after_a_power_cut(disk: Disk, tmp_path: Path) -> None:
    ragged = RaggedSlab(disk.folder / "words", 2, write=True)
    ragged.append(0, [np.full((rows, 2), rows, np.float16) for rows in (1, 2, 3)])
    assert ragged.blank([1]) == 1
    left = RaggedSlab(disk.left(tmp_path / "left") / "words", 2, write=False)
    left.check(1)
    assert [array.tolist() for array in left.read(range(3))] == [[[1, 1]], [[0, 0]] * 2, [[3, 3]] * 3]


def test_a_stored_shortlist_is_not_trained_again_after_a_power_cut(disk: Disk, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(80, 8)).astype(np.float32)
    save_part(disk.folder / "shortlists", "images", inverted_part(rows), "first")
    left = disk.left(tmp_path / "left") / "shortlists"
    part = load_part(left, "images", generation="first", exact=rows)
    assert part is not None
    assert len(part) == 80


@pytest.mark.parametrize("moment", ["fsync", "rename"])
def test_a_file_replaced_is_the_old_one_or_the_new_one(
    disk: Disk, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.folder / "file"
    files.replace_file(file, b"old")

    def power_cut(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", power_cut) if moment == "fsync" else patch.setattr(Path, "replace", power_cut)
        with pytest.raises(OSError):  # noqa: PT011
            files.replace_file(file, b"new")
    assert file.read_bytes() == (disk.left(tmp_path / "left") / "file").read_bytes() == b"old"
    files.remove_strays(disk.folder)
    assert [path.name for path in disk.folder.iterdir()] == ["file"]
    files.replace_file(file, b"new")
    assert (disk.left(tmp_path / "after") / "file").read_bytes() == b"new"
