"""What a power cut leaves: only bytes and names that were fsynced. SQLite keeps its own promises, and is not here."""

import os
from pathlib import Path

import pytest

from index import files
from index.slab import Slab
from index.view import View, ViewWriter
from tests.support import small_views as views
from tests.support.slab_records import LAYOUT, records, same


class Disk:
    """Follows every fsync below a folder, and can leave behind what would be found after the worst power cut."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.content: dict[int, bytes] = {}  # inode -> bytes
        self.names: dict[Path, dict[str, int]] = {}  # folder -> name -> inode
        self.sync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, handle: int) -> None:
        self.sync(handle)
        path = Path(f"/proc/self/fd/{handle}").readlink()
        if path.is_dir():
            self.names[path] = {child.name: child.stat().st_ino for child in path.iterdir()}
        else:
            self.content[os.fstat(handle).st_ino] = path.read_bytes()

    def left(self, target: Path, folder: Path | None = None) -> Path:
        """Write what is left of `folder` to `target`."""
        folder = folder or self.folder
        target.mkdir()
        for name, inode in self.names.get(folder, {}).items():
            if (folder / name).is_dir():
                self.left(target / name, folder / name)
            else:
                (target / name).write_bytes(self.content.get(inode, b""))
        return target


@pytest.fixture(name="disk")
def a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    folder = tmp_path / "disk"
    folder.mkdir()
    return Disk(folder, monkeypatch)


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


@pytest.mark.parametrize("moment", ["fsync", "rename"])
def test_a_file_replaced_is_the_old_one_or_the_new_one(
    disk: Disk, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.folder / "file"
    files.replace(file, b"old")

    def power_cut(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", power_cut) if moment == "fsync" else patch.setattr(Path, "replace", power_cut)
        with pytest.raises(OSError):  # noqa: PT011
            files.replace(file, b"new")
    assert file.read_bytes() == (disk.left(tmp_path / "left") / "file").read_bytes() == b"old"
    files.remove_strays(disk.folder)
    assert [path.name for path in disk.folder.iterdir()] == ["file"]
    files.replace(file, b"new")
    assert (disk.left(tmp_path / "after") / "file").read_bytes() == b"new"
