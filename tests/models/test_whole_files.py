"""Files that are written whole or not at all, and that others may read."""

import errno
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from models.whole_files import write_tensors, write_whole


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


def test_a_folder_that_is_not_there_keeps_its_kind_of_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "gone" / "a", b"any")
