"""The file that makes room where a disk is full."""

import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from service.api.stored_pictures import LocalPictures
from service.auth.api_keys import create_key
from service.auth.key_file import change_keys, read_keys
from service.auth.permissions import Permission
from service.cli.commands.doctor import CHECKS, run_check
from service.errors import Misconfigured
from service.settings import Settings
from service.storage.ballast import BALLAST, BALLAST_BYTES, NEEDED_BYTES, give_up_ballast, has_room, lay_ballast
from service.storage.data_dir_lock import lock_data_dir


class Disk:
    """A disk that other programs fill, beside what lies in one folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free_without_us = 100 * BALLAST_BYTES
        self._folder = folder
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=self.free))

    @property
    def free(self) -> int:
        return self.free_without_us - sum(file.stat().st_size for file in self._folder.iterdir() if file.is_file())


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch)


def test_it_is_laid_once_and_given_up_where_the_disk_is_full(
    disk: Disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lay_ballast(tmp_path)
    lay_ballast(tmp_path)
    file = tmp_path / BALLAST
    assert file.stat().st_size == BALLAST_BYTES
    assert file.stat().st_blocks * 512 >= BALLAST_BYTES  # room that is really taken
    give_up_ballast(tmp_path)
    assert file.exists()
    disk.free_without_us = BALLAST_BYTES
    give_up_ballast(tmp_path)
    assert not file.exists()
    assert "the disk of" in caplog.text
    assert disk.free >= NEEDED_BYTES
    lay_ballast(tmp_path)  # there is none to spare
    assert not file.exists()


def test_a_disk_without_it_that_is_full_is_named(disk: Disk, tmp_path: Path) -> None:
    disk.free_without_us = NEEDED_BYTES - 1
    for open_it in (give_up_ballast, lock_data_dir):
        with pytest.raises(Misconfigured, match=f"the disk of {tmp_path} is full: make room there"):
            open_it(tmp_path)


def test_a_key_is_revoked_on_a_full_disk(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    _, stored = create_key("lost", Permission.ADMIN, 0.0)
    change_keys(path, lambda keys: [stored])
    lay_ballast(tmp_path)
    disk.free_without_us = disk.free_without_us - disk.free
    change_keys(path, lambda keys: [])
    assert read_keys(path) == []
    assert not (tmp_path / BALLAST).exists()


class FullDatabase:
    """The deletion of a catalog on a disk that has room only once the ballast is gone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def delete(self, image_id: str, now: float) -> bool:
        if (self.folder / BALLAST).exists() or not has_room(self.folder):
            fault = sqlite3.OperationalError("database or disk is full")
            fault.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise fault
        return True


def test_a_picture_is_deleted_on_a_full_disk(disk: Disk, tmp_path: Path) -> None:
    lay_ballast(tmp_path)
    disk.free_without_us = disk.free_without_us - disk.free
    catalog: Any = FullDatabase(tmp_path)
    pictures = LocalPictures(catalog, [])  # type: ignore[arg-type]  # no model, no view
    assert pictures.delete("a", 0.0)
    disk.free_without_us = 0
    with pytest.raises(sqlite3.OperationalError, match="full"):
        pictures.delete("b", 0.0)


def test_what_a_killed_process_left_of_it_is_none(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / BALLAST).touch()
    lay_ballast(tmp_path)
    assert (tmp_path / BALLAST).stat().st_size == BALLAST_BYTES


def test_a_folder_that_is_not_there_is_left_alone(disk: Disk, tmp_path: Path) -> None:
    disk.free_without_us = 0
    give_up_ballast(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_look_at_a_full_disk_gives_nothing_up(disk: Disk, tmp_path: Path) -> None:
    lay_ballast(tmp_path)
    disk.free_without_us = BALLAST_BYTES
    found = run_check("data", CHECKS["data"], Settings(data_dir=tmp_path))
    assert not found["ok"]
    assert "is full: make room there" in found["found"]
    assert (tmp_path / BALLAST).exists()
