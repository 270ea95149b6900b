"""Archives written in one pass are those that other programs read."""

import io
import random
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import IO

import pytest

from service.storage import zip_stream
from service.storage.zip_stream import ZipEntry, zip_length, zip_parts


def made(contents: dict[str, bytes], modified_at: float = 1e9) -> bytes:
    entries = [ZipEntry(name, len(content), modified_at) for name, content in contents.items()]
    return b"".join(zip_parts(entries, lambda place: io.BytesIO([*contents.values()][place])))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("large", [zipfile.ZIP64_LIMIT, 3000])  # small, so that sizes and offsets need ZIP64
def test_an_archive_holds_what_was_put_in(
    seed: int, large: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", large)
    monkeypatch.setattr(zip_stream, "ZIP_PART_BYTES", 100)
    chance = random.Random(seed)
    names = [f"{'ä/é🐶x'[: chance.randrange(5)]}{number}.jpg" for number in range(chance.randrange(40))]
    contents = {name: chance.randbytes(chance.choice([0, 1, 99, 100, 101, 2900, 5000])) for name in names}
    sizes = [ZipEntry(name, len(content), 0) for name, content in contents.items()]
    assert zip_length(sizes) == len(made(contents))
    with zipfile.ZipFile(io.BytesIO(made(contents))) as archive:
        assert archive.namelist() == names
        assert {name: archive.read(name) for name in names} == contents
    if names:
        (tmp_path / "a.zip").write_bytes(made(contents))
        unzip = shutil.which("unzip")
        assert unzip is None or subprocess.run([unzip, "-tqq", tmp_path / "a.zip"], check=False).returncode == 0


class Endless(io.RawIOBase):
    """A file of zeros, read in large parts."""

    def __init__(self, size: int) -> None:
        self.size = self.left = size

    def read(self, most: int = -1) -> bytes:
        part = bytes(min(most, self.left))
        self.left -= len(part)
        return part

    def seek(self, place: int, whence: int = 0) -> int:
        self.left = self.size - place
        return place


@pytest.mark.parametrize(
    ("at", "read"),
    [
        (0.0, (1980, 1, 1, 0, 0, 0)),
        (1_719_835_201.0, (2024, 7, 1, 12, 0, 0)),
        (1e11, (2107, 12, 31, 23, 59, 58)),
    ],
)
def test_times_are_those_of_the_entries(at: float, read: tuple[int, ...]) -> None:
    (entry,) = zipfile.ZipFile(io.BytesIO(made({"a.jpg": b"x"}, at))).infolist()
    assert entry.date_time == read


def test_a_file_of_another_size_ends_the_archive() -> None:
    with pytest.raises(OSError, match="file 2 of the archive has 2 bytes, not 3"):
        list(zip_parts([ZipEntry("a.jpg", 2, 0.0), ZipEntry("b.jpg", 3, 0.0)], lambda _: io.BytesIO(b"ab")))


def test_one_part_at_a_time_is_read() -> None:
    opened: list[Endless] = []

    def open_entry(place: int) -> IO[bytes]:
        opened.append(Endless(50 * zip_stream.ZIP_PART_BYTES))
        return opened[-1]  # type: ignore[return-value]

    parts = zip_parts([ZipEntry("a.jpg", 50 * zip_stream.ZIP_PART_BYTES, 0.0)] * 2, open_entry)
    assert max(len(next(parts)) for _ in range(40)) <= zip_stream.ZIP_PART_BYTES + 1000  # with the headers
    assert (len(opened), opened[0].closed) == (1, False)
    parts.close()  # type: ignore[attr-defined]
    assert opened[0].closed
