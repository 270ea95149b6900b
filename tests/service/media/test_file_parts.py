"""A header of thousands of parts is refused before any decoder sees it; real files are far from it."""

import io
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.errors import UnreadablePicture
from service.media.file_parts import MAX_BLOCKS, MAX_PARTS, MAX_SCANS, TooManyParts, check_parts
from service.media.file_type import image_extension
from tests.support.bombs import between_segments, scans
from tests.support.pictures import corners, encoded


def jpeg(count: int) -> bytes:
    whole = encoded(corners(), "JPEG")
    return whole[:2] + (b"\xff\xe1" + struct.pack(">H", 20) + b"x" * 18) * count + whole[2:]


def png(count: int) -> bytes:
    whole, body = encoded(corners(), "PNG"), b"tEXta\0b"
    chunk = struct.pack(">I", 3) + body + struct.pack(">I", zlib.crc32(body))
    return whole[:33] + chunk * count + whole[33:]


def webp(count: int) -> bytes:
    whole = encoded(corners(), "WEBP")
    parts = (b"junk" + struct.pack("<I", 2) + b"xx") * count + whole[12:]
    return b"RIFF" + struct.pack("<I", 4 + len(parts)) + b"WEBP" + parts


def gif(count: int) -> bytes:
    whole = encoded(corners(), "GIF")
    start = 13 + (3 << (whole[10] & 7) + 1 if whole[10] & 0x80 else 0)
    return whole[:start] + b"!\xfe\x02hi\0" * count + whole[start:]


MAKERS = {"jpg": jpeg, "png": png, "webp": webp, "gif": gif}


@pytest.mark.parametrize("extension", MAKERS)
def test_a_header_in_thousands_of_parts_is_refused_in_words(tmp_path: Path, extension: str) -> None:
    file = tmp_path / "picture"
    file.write_bytes(MAKERS[extension](MAX_PARTS + 1))
    with pytest.raises(UnreadablePicture, match=r"more than 2000 (segments|chunks|extensions): save it anew"):
        image_extension(file, 10**6)
    few = 500 if extension != "webp" else 0  # which has to begin with its pixels
    file.write_bytes(MAKERS[extension](few))
    assert image_extension(file, 10**6) == extension


def test_endless_fill_bytes_and_blocks_are_refused() -> None:
    filled = b"\xff\xd8" + b"\xff" * (MAX_BLOCKS + 10) + b"\xe1\x00\x02"
    blocks = encoded(corners(), "GIF")[:6] + b"\1\0\1\0\0\0\0" + b"!\xfe" + b"\1x" * (MAX_BLOCKS + 10) + b"\0"
    for content in (filled, blocks):
        with pytest.raises(TooManyParts):
            check_parts(io.BytesIO(content))


def test_pixels_in_very_many_scans_are_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "picture"
    file.write_bytes(scans(64, MAX_SCANS))
    with pytest.raises(UnreadablePicture, match="its pixels come in more than 50 scans: save it anew"):
        image_extension(file, 10**6)
    file.write_bytes(scans(64, MAX_SCANS - 10))
    assert image_extension(file, 10**6) == "jpg"


def test_what_follows_a_picture_or_lies_between_its_scans_is_no_scan(tmp_path: Path) -> None:
    whole = encoded(corners(), "JPEG", progressive=True)
    behind = b"\xff\xda\0\2" * 2 * MAX_SCANS  # as a film that a phone keeps behind a picture may hold
    check_parts(io.BytesIO(whole + behind))
    comment = b"\xff\xfe" + struct.pack(">H", len(behind) + 2) + behind
    last = whole.rindex(b"\xff\xda")
    check_parts(io.BytesIO(whole[:last] + comment + whole[last:]))
    with pytest.raises(TooManyParts, match="2000 segments"):
        check_parts(io.BytesIO(whole[:last] + comment * MAX_PARTS + whole[last:]))


@pytest.mark.parametrize("between", [b"\0", b"\xff\x01", b"\xff\x02", b"junk", b"\xff\xff\xff"])
def test_bytes_between_segments_hide_no_scan(between: bytes) -> None:
    check_parts(io.BytesIO(between_segments(scans(64, MAX_SCANS - 10), between)))
    with pytest.raises(TooManyParts, match="50 scans"):
        check_parts(io.BytesIO(between_segments(scans(64, MAX_SCANS), between)))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("big", [False, True])
def test_a_tiff_in_very_many_pieces_is_refused(order: str, big: bool) -> None:
    mark = b"II" if order == "<" else b"MM"
    head = mark + (struct.pack(f"{order}HHHQ", 43, 8, 0, 16) if big else struct.pack(f"{order}HI", 42, 8))

    def tiff(tag: int, count: int, num_entries: int = 1) -> io.BytesIO:
        entry = struct.pack(f"{order}HH" + ("QQ" if big else "II"), tag, 3, count, 8)
        return io.BytesIO(head + struct.pack(f"{order}{'Q' if big else 'H'}", num_entries) + entry * num_entries)

    check_parts(tiff(273, MAX_BLOCKS))
    check_parts(tiff(700, MAX_BLOCKS + 1))  # XMP
    for tag in (273, 324):
        with pytest.raises(TooManyParts, match="pieces"):
            check_parts(tiff(tag, MAX_BLOCKS + 1))
    with pytest.raises(TooManyParts, match="entries"):
        check_parts(tiff(256, 1, MAX_PARTS + 1))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.sampled_from([b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBP", b"GIF89a", b"II*\0", b"MM\0+"]),
    rest=st.binary(max_size=200),
)
def test_any_bytes_are_counted_without_a_fault(start: bytes, rest: bytes) -> None:
    file = io.BytesIO(start + rest)
    check_parts(file)
    assert file.tell() == 0
