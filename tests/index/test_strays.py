"""Files that are being written are no strays; those of killed writers are."""

import errno
import fcntl
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest

from index.files import remove_strays, replace_file, temporary_beside


def test_a_file_somebody_writes_stays_and_a_stray_goes(tmp_path: Path) -> None:
    stray = tmp_path / "header.json.tmp"
    stray.write_bytes(b"half")
    with temporary_beside(tmp_path / "header.json") as file:
        file.write(b"new")
        remove_strays(tmp_path)
        assert list(tmp_path.iterdir()) == [Path(file.name)]
    remove_strays(tmp_path)  # the writer never renamed it
    assert list(tmp_path.iterdir()) == []


def test_who_is_interrupted_leaves_nothing_half_written(tmp_path: Path) -> None:
    def write(file: IO[bytes]) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), temporary_beside(tmp_path / "picture.jpg") as file:
        write(file)
    assert list(tmp_path.iterdir()) == []


def test_files_are_replaced_where_nothing_can_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: IO[bytes], operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    unsure = tmp_path / "header.json.tmp"
    unsure.write_bytes(b"perhaps another writer's")
    replace_file(tmp_path / "header.json", b"new")
    remove_strays(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"header.json", unsure.name}
    assert (tmp_path / "header.json").read_bytes() == b"new"


def test_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    with temporary_beside(tmp_path / "a") as first, temporary_beside(tmp_path / "a") as second:
        assert first.name != second.name


def test_files_are_replaced_while_strays_are_removed(tmp_path: Path) -> None:
    over = threading.Event()

    def remove() -> None:
        while not over.is_set():
            remove_strays(tmp_path)

    def write(name: str) -> None:
        for number in range(200):
            replace_file(tmp_path / "shared", f"{name} {number}".encode())

    with ThreadPoolExecutor(3) as threads:
        removing = threads.submit(remove)
        writing = [threads.submit(write, name) for name in ("one", "two")]
        try:
            for one in writing:
                one.result()
        finally:
            over.set()
        removing.result()
    assert (tmp_path / "shared").read_bytes() in (b"one 199", b"two 199")
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]
