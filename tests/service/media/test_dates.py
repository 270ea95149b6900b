"""When a picture was taken, by EXIF and XMP."""

from collections.abc import Mapping
from pathlib import Path

import PIL.Image
import pytest

from service.media.decode_pool import DecodePool
from tests.support.described_pictures import jpeg, xmp
from tests.support.pictures import corners, encoded

AT_SEVEN = 1714979289.0  # 2024-05-06 07:08:09 UTC
IN_XMP = (
    'xmlns:exif="http://ns.adobe.com/exif/1.0/" xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/"'
    ' xmlns:xmp="http://ns.adobe.com/xap/1.0/" '
)


def date_of(pool: DecodePool, folder: Path, content: bytes) -> float | None:
    file = folder / "dated"
    file.write_bytes(content)
    return pool.decode(file).taken_at


def with_exif(tags: Mapping[int, str]) -> bytes:
    exif = PIL.Image.Exif()
    exif.get_ifd(0x8769).update(tags)
    return encoded(corners(), "JPEG", exif=exif)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({0x9003: "2024:05:06 07:08:09"}, AT_SEVEN),
        ({0x9003: "2024:05:06 07:08:09", 0x9011: "+02:00"}, AT_SEVEN - 7200),
        ({0x9003: "2024:05:06 07:08:09", 0x9012: "+02:00"}, AT_SEVEN),
        ({0x9004: "2024:05:06 07:08:09", 0x9012: "+02:00"}, AT_SEVEN - 7200),
        ({0x9003: "0000:00:00 00:00:00", 0x9004: "2024:05:06 07:08:09"}, AT_SEVEN),
        ({0x9003: "2024:05:06 07:08:09", 0x9004: "1999:01:01 00:00:00"}, AT_SEVEN),
        ({0x9003: "0001:01:01 00:00:00", 0x9011: "+14:00"}, None),
        ({0x9003: "0000:00:00 00:00:00"}, None),
        ({0x9003: "yesterday"}, None),
        ({}, None),
    ],
)
def test_exif_tells_when_the_shutter_opened_or_else_when_the_picture_became_digital(
    pool: DecodePool, tmp_path: Path, tags: Mapping[int, str], expected: float | None
) -> None:
    assert date_of(pool, tmp_path, with_exif(tags)) == expected


def test_when_a_file_was_changed_last_says_nothing(pool: DecodePool, tmp_path: Path) -> None:
    exif = PIL.Image.Exif()
    exif[0x0132] = "2024:05:06 07:08:09"
    assert date_of(pool, tmp_path, encoded(corners(), "JPEG", exif=exif)) is None
    assert date_of(pool, tmp_path, jpeg(xmp("", attributes=f'{IN_XMP}xmp:ModifyDate="2024-05-06"'))) is None


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('exif:DateTimeOriginal="2024-05-06T07:08:09Z"', AT_SEVEN),
        ('exif:DateTimeOriginal="2024-05-06T07:08:09"', AT_SEVEN),
        ('photoshop:DateCreated="2024-05-06T07:08:09.25+02:00"', AT_SEVEN - 7200),
        ('xmp:CreateDate="2024-05-06T07:08-05:30"', AT_SEVEN - 9 + 5.5 * 3600),
        ('xmp:CreateDate="2024-05-06"', AT_SEVEN - 9 - 8 * 60 - 7 * 3600),
        ('xmp:CreateDate="1970-01"', 0.0),
        ('xmp:CreateDate="1970"', 0.0),
        ('xmp:CreateDate="2001-01-01" exif:DateTimeOriginal="2024-05-06T07:08:09Z"', AT_SEVEN),
        ('exif:DateTimeOriginal="2024-02-31" xmp:CreateDate="2024-05-06T07:08:09Z"', AT_SEVEN),
        ('xmp:CreateDate="0000-00-00T00:00:00Z"', None),
        ('xmp:CreateDate="2024-05-06T07:08:09+99:00"', None),
        ('xmp:CreateDate="٢٠٢٤"', None),
        ('xmp:CreateDate="last summer"', None),
    ],
)
def test_xmp_tells_in_every_precision(
    pool: DecodePool, tmp_path: Path, attributes: str, expected: float | None
) -> None:
    assert date_of(pool, tmp_path, jpeg(xmp("", attributes=IN_XMP + attributes))) == expected


def test_xmp_tells_as_an_element_too_and_exif_counts_first(pool: DecodePool, tmp_path: Path) -> None:
    packet = xmp("<xmp:CreateDate>2024-05-06T07:08:09Z</xmp:CreateDate>", attributes=IN_XMP)
    assert date_of(pool, tmp_path, jpeg(packet)) == AT_SEVEN
    exif = PIL.Image.Exif()
    exif.get_ifd(0x8769)[0x9004] = "1999:01:01 00:00:00"
    assert date_of(pool, tmp_path, encoded(corners(), "JPEG", exif=exif, xmp=packet)) == 915148800.0


def test_exif_behind_the_pixels_of_a_png_is_read(pool: DecodePool, tmp_path: Path) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 1
    exif.get_ifd(0x8769)[0x9003] = "2024:05:06 07:08:09"
    content = encoded(corners(), "PNG", exif=exif)
    at = content.index(b"eXIf") - 4
    length = 12 + int.from_bytes(content[at : at + 4], "big")
    end = content.index(b"IEND") - 4
    behind = content[:at] + content[at + length : end] + content[at : at + length] + content[end:]
    assert date_of(pool, tmp_path, behind) == AT_SEVEN


def test_broken_metadata_has_no_date(pool: DecodePool, tmp_path: Path) -> None:
    assert date_of(pool, tmp_path, encoded(corners(), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")) is None
    assert date_of(pool, tmp_path, jpeg(xmp("<unclosed>"))) is None
