"""Files that are written whole or not at all, and that others may read."""

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
import torch
from safetensors.torch import load_file

from models.whole_files import alone_in, write_tensors, write_whole
from tests.support.forked import run_forked


def test_tensors_are_written_as_any_other_file(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    matrix = torch.arange(12.0).reshape(3, 4)
    write_tensors(path, {"turned": matrix.T, "bytes": matrix.to(torch.uint8)})
    found = load_file(path)
    assert torch.equal(found["turned"], matrix.T)
    assert torch.equal(found["bytes"], matrix.to(torch.uint8))
    (tmp_path / "other").write_bytes(b"")
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_disk_without_room_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write_whole(path, b"before")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as fault:
        write_whole(path, b"after")
    assert fault.value.filename == str(path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_files_are_replaced_where_nothing_can_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: IO[bytes], operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    unsure = tmp_path / "a.0123abcd.partial"
    unsure.write_bytes(b"perhaps another writer's")
    write_whole(tmp_path / "a", b"new")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "a", unsure]
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_folder_that_is_not_there_keeps_its_kind_of_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "gone" / "a", b"any")


def test_a_name_may_have_as_many_bytes_as_names_can(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127)
    write_whole(path, b"any")
    assert list(tmp_path.iterdir()) == [path]


def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """Have it happen, once, when a file is written and not yet in its place."""
    sync = os.fsync

    def fsync(handle: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        happens()
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)


def test_of_two_writers_at_once_the_last_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    meanwhile(monkeypatch, lambda: write_whole(path, b"meanwhile"))
    write_whole(path, b"last")
    assert path.read_bytes() == b"last"
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_that_fails_takes_nothing_from_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail() -> None:
        with monkeypatch.context() as until_then:
            until_then.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space left"):
                write_whole(path, b"no room")

    meanwhile(monkeypatch, fail)
    write_whole(path, b"other")
    assert path.read_bytes() == b"other"
    assert list(tmp_path.iterdir()) == [path]


def die_writing(path: Path) -> None:
    os.fsync = lambda fd: os._exit(9)
    write_whole(path, b"never there")


def test_what_a_killed_writer_left_goes_with_the_next_one(tmp_path: Path) -> None:
    path, other = tmp_path / "a[1]", tmp_path / "a[1].1.partial"
    other.write_bytes(b"of somebody else")
    assert run_forked(die_writing, path) == 9
    assert len(list(tmp_path.iterdir())) == 2
    write_whole(path, b"whole")
    assert sorted(tmp_path.iterdir()) == [path, other]


def test_blocks_of_one_folder_run_one_after_the_other(tmp_path: Path) -> None:
    ran = threading.Event()

    def run() -> None:
        with alone_in(tmp_path):
            ran.set()

    thread = threading.Thread(target=run)
    with alone_in(tmp_path):
        thread.start()
        assert not ran.wait(0.2)
    assert ran.wait(60)
    thread.join()
