"""Folders of uploads in progress: abandoned ones are removed, and no others."""

import fcntl
import os
from pathlib import Path

from service.storage.incoming import remove_abandoned_uploads, upload_folder


def test_abandoned_uploads_go_and_requests_in_flight_keep_their_files(tmp_path: Path) -> None:
    abandoned, busy = tmp_path / "abandoned", tmp_path / "busy"
    for folder in (abandoned, busy):
        folder.mkdir()
        (folder / "0").write_bytes(b"x")
    handle = os.open(busy, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        assert remove_abandoned_uploads(tmp_path) == 1
        assert list(tmp_path.iterdir()) == [busy]
    finally:
        os.close(handle)
    assert remove_abandoned_uploads(tmp_path) == 1


def test_an_upload_folder_is_safe_until_its_block_ends(tmp_path: Path) -> None:
    with upload_folder(tmp_path) as folder:
        assert remove_abandoned_uploads(tmp_path) == 0
        assert list(tmp_path.iterdir()) == [folder]
    assert list(tmp_path.iterdir()) == []
