"""Files that are there after a power cut: fsync of data, of new names, and atomic replacement."""

import os
from pathlib import Path

TEMPORARY = ".tmp"


def sync_folder(folder: Path) -> None:
    """Make the names in the folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(path: Path) -> None:
    """Make the file's bytes durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Create the folder and its missing parents, durably; nothing happens when it is there."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def replace(path: Path, content: bytes) -> None:
    """Give the file this content, durably: a reader, or a crash, sees the old content or the new, no mixture."""
    temporary = path.with_name(path.name + TEMPORARY)
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def remove_strays(folder: Path) -> None:
    """Remove what a killed writer left of an unfinished `replace`."""
    for stray in folder.glob(f"*{TEMPORARY}"):
        stray.unlink(missing_ok=True)


def write_at(handle: int, content: memoryview, offset: int) -> None:
    """Write all of the bytes at the offset; OSError when the disk is full."""
    while content:
        written = os.pwrite(handle, content, offset)
        content, offset = content[written:], offset + written
