"""Arrays in files: damaged ones are named, and a full disk is told of before anything is written."""

import errno
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from models.datasets.npy_files import create_array, grow_array, open_array


def test_an_array_takes_its_room_at_once_and_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    create_array(path, (1000, 100), "f4")
    assert path.stat().st_blocks * 512 >= 400_000
    array = open_array(path, "r+")
    assert (array.shape, array.dtype, bool(array.any())) == ((1000, 100), np.dtype(np.float32), False)
    array[3] = 1
    array.flush()
    assert open_array(path)[3].all()


def test_a_disk_without_room_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    path = tmp_path / "a.npy"
    with pytest.raises(OSError, match="No space left on device") as fault:
        create_array(path, (10,), "f4")
    assert fault.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["f2", "?"])
def test_an_array_grows_in_its_place(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.npy"
    create_array(path, (9, 5), kind)
    array = open_array(path, "r+")
    array[:] = np.arange(45).reshape(9, 5) % 7
    array.flush()
    held = array.copy()
    grow_array(path, 100_000)
    grown = open_array(path)
    assert (grown.shape, grown.dtype) == ((100_000, 5), held.dtype)
    assert np.array_equal(grown[:9], held)
    assert not grown[9:].any()
    grow_array(path, 9)  # which it has
    assert open_array(path).shape == (100_000, 5)


def test_an_array_that_finds_no_room_to_grow_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, offset: int, length: int) -> None:
        os.ftruncate(handle, length)  # a part of the room was there
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "a.npy"
    create_array(path, (9, 5), "f4")
    before = path.read_bytes()
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left on device"):
        grow_array(path, 100)
    assert path.read_bytes() == before


def test_a_file_that_holds_no_whole_array_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((100, 10)))
    whole = path.read_bytes()
    for content in (b"", whole[:50], whole[:-1], b"1 2 3\n", pickle.dumps([1, 2])):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{path} holds no whole array of numbers"):
            open_array(path)
