"""Folders of uploads in progress: abandoned ones are removed, and no others."""

import fcntl
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service.storage.incoming import upload_folder
from service.storage.temporary_folders import remove_abandoned


def test_abandoned_uploads_go_and_requests_in_flight_keep_their_files(tmp_path: Path) -> None:
    abandoned, busy = tmp_path / "abandoned", tmp_path / "busy"
    for folder in (abandoned, busy):
        folder.mkdir()
        (folder / "0").write_bytes(b"x")
    handle = os.open(busy, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        assert remove_abandoned(tmp_path) == 1
        assert list(tmp_path.iterdir()) == [busy]
    finally:
        os.close(handle)
    assert remove_abandoned(tmp_path) == 1


def test_an_upload_folder_is_safe_until_its_block_ends(tmp_path: Path) -> None:
    with upload_folder(tmp_path) as folder:
        assert remove_abandoned(tmp_path) == 0
        assert list(tmp_path.iterdir()) == [folder]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_no_upload_made_stops_nothing_and_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert remove_abandoned(tmp_path) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_requests_may_end_while_abandoned_uploads_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "abandoned").mkdir()
    listed = list(tmp_path.iterdir())
    monkeypatch.setattr(Path, "iterdir", lambda self: iter([tmp_path / "just-ended", *listed]))
    assert remove_abandoned(tmp_path) == 1


def test_uploads_begin_and_end_beside_a_worker_that_starts(tmp_path: Path) -> None:
    over = threading.Event()

    def remove() -> None:
        while not over.is_set():
            remove_abandoned(tmp_path)

    with ThreadPoolExecutor(1) as threads:
        removing = threads.submit(remove)
        try:
            for _ in range(300):
                with upload_folder(tmp_path) as folder:
                    (folder / "0").write_bytes(b"x")
                    assert (folder / "0").read_bytes() == b"x"
        finally:
            over.set()
        removing.result()
