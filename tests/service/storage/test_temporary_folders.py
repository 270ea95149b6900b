"""Folders for a while: those of killed processes are removed, and nothing else."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from service.storage.temporary_folders import remove_abandoned, scratch_folder, temporary_folder
from tests.support.without_privilege import output_without_privilege


def test_abandoned_folders_of_the_name_go_however_young_they_are(tmp_path: Path) -> None:
    for name in ("own-left", "others"):
        (tmp_path / name).mkdir()
    with temporary_folder("own-", tmp_path) as folder:
        assert {path.name for path in tmp_path.iterdir()} == {"others", folder.name}
        assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in tmp_path.iterdir()] == ["others"]


def test_a_link_is_nobodys_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    for folder in (place, elsewhere):
        folder.mkdir()
    (elsewhere / "file").write_bytes(b"x")
    (place / "link").symlink_to(elsewhere)
    assert remove_abandoned(place) == 0
    assert (place / "link" / "file").exists()
    assert caplog.records == []


def test_where_nothing_can_be_locked_nothing_is_abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with scratch_folder(tmp_path) as folder:
        assert remove_abandoned(tmp_path) == 0
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_may_not_be_listed_takes_temporary_folders(tmp_path: Path) -> None:
    drop_box = tmp_path / "drop-box"
    drop_box.mkdir()
    drop_box.chmod(0o333)
    program = """
import sys
from pathlib import Path
from service.storage.temporary_folders import temporary_folder
with temporary_folder("some-", Path(sys.argv[1])) as folder:
    print(folder.is_dir())
"""
    try:
        assert output_without_privilege("-c", program, str(drop_box)) == "True\n"
    finally:
        drop_box.chmod(0o700)
