"""Captions and keywords that picture files hold: read from XMP and IPTC, and refused where they are built to harm."""

import io
import unicodedata
from pathlib import Path

import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL.PngImagePlugin import PngInfo

from service.media.decode_pool import DecodedPicture, DecodePool
from service.media.descriptions import LARGEST_XMP, LONGEST_CAPTION, LONGEST_KEYWORDS
from service.media.pixels import DECODE_ERRORS, description_of
from tests.support.described_pictures import described, iptc_block, jpeg, xmp
from tests.support.pictures import corners


def decoded(pool: DecodePool, folder: Path, content: bytes) -> DecodedPicture:
    file = folder / "picture"
    file.write_bytes(content)
    found = pool.decode(file)
    assert found.picture.size == (60, 40)
    return found


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_a_caption_and_keywords_are_read_from_every_format(pool: DecodePool, tmp_path: Path, kind: str) -> None:
    packet = described("Zoë on the\nbeach & <dunes>", "Ærø", "beach", "beach", " Oma  Bello ")
    content = jpeg(packet) if kind == "JPEG" else with_xmp(kind, packet)
    found = decoded(pool, tmp_path, content)
    assert (found.caption, found.keywords) == ("Zoë on the beach & <dunes>", ("Ærø", "beach", "Oma Bello"))


def with_xmp(kind: str, packet: bytes) -> bytes:
    buffer = io.BytesIO()
    if kind == "PNG":
        info = PngInfo()
        info.add_itxt("XML:com.adobe.xmp", packet.decode())
        corners().save(buffer, kind, pnginfo=info)
    elif kind == "TIFF":
        corners().save(buffer, kind, tiffinfo={700: packet})
    else:
        corners().save(buffer, kind, xmp=packet)
    return buffer.getvalue()


def test_iptc_is_read_where_there_is_no_xmp_and_keywords_are_joined(pool: DecodePool, tmp_path: Path) -> None:
    block = iptc_block((2, 120, "Grüße".encode("latin-1")), (2, 25, b"beach"), (2, 25, b"sun"))
    found = decoded(pool, tmp_path, jpeg(iptc=block))
    assert (found.caption, found.keywords) == ("Grüße", ("beach", "sun"))
    utf_8 = iptc_block((1, 90, b"\x1b%G"), (2, 120, "Grüße".encode()), (2, 25, "Füße".encode()))
    assert decoded(pool, tmp_path, jpeg(iptc=utf_8)).caption == "Grüße"
    both = decoded(pool, tmp_path, jpeg(described("of XMP", "sun"), block))
    assert (both.caption, both.keywords) == ("of XMP", ("sun", "beach"))


def test_a_caption_written_as_an_attribute_counts(pool: DecodePool, tmp_path: Path) -> None:
    found = decoded(pool, tmp_path, jpeg(xmp("", attributes='dc:description="short"')))
    assert found.caption == "short"


def test_places_are_left_alone(pool: DecodePool, tmp_path: Path) -> None:
    place = 'exif:GPSLatitude="59,54.9N" exif:GPSLongitude="10,44.5E"'
    found = decoded(pool, tmp_path, jpeg(xmp("", attributes=place)))
    assert (found.caption, found.keywords) == ("", ())


BOMB = (
    "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'>"
    + "".join(f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(9))
    + "]>"
)
HOSTILE = {
    "entity bomb": xmp("<dc:description>&j;</dc:description>", before=BOMB),
    "entity of a file": xmp(
        "<dc:description>&e;</dc:description>", before='<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    ),
    "document type": xmp("<dc:description>x</dc:description>", before="<!DOCTYPE x>"),
    "cut": described("x", "y")[:-30],
    "deep": xmp("<a>" * 9000 + "</a>" * 9000)[:60_000],
    "no XML": bytes(range(256)) * 200,
    "no UTF-8": b"<x>\xff\xfe</x>",
    "nothing": b" ",
}


@pytest.mark.parametrize("harm", HOSTILE)
def test_metadata_built_to_harm_says_nothing_and_the_picture_is_taken(
    pool: DecodePool, tmp_path: Path, harm: str
) -> None:
    found = decoded(pool, tmp_path, jpeg(HOSTILE[harm]))
    assert (found.caption, found.keywords) == ("", ())


def test_huge_metadata_is_not_looked_at_and_long_texts_are_cut(pool: DecodePool, tmp_path: Path) -> None:
    huge = decoded(pool, tmp_path, with_xmp("WEBP", described("a" * LARGEST_XMP, "b")))
    assert (huge.caption, huge.keywords) == ("", ())
    long = decoded(pool, tmp_path, with_xmp("WEBP", described("word " * 5000, *(f"keyword {n}" for n in range(5000)))))
    assert len(long.caption) <= LONGEST_CAPTION
    assert long.caption.startswith("word word")
    assert len("; ".join(long.keywords)) <= LONGEST_KEYWORDS
    assert long.keywords[0] == "keyword 0"


def test_iptc_that_lies_about_its_lengths_says_nothing_wrong(pool: DecodePool, tmp_path: Path) -> None:
    block = iptc_block((2, 25, b"beach"))
    for broken in (block[:-3], block + b"\x1c\x02\x19\xff\xff", b"\x1c" * 4000, block + b"\0" * 4000):
        assert decoded(pool, tmp_path, jpeg(iptc=broken)).keywords in ((), ("beach",), ("be",))


@settings(max_examples=200)
@given(packet=st.binary(max_size=200) | st.text(max_size=80).map(lambda text: described(text, text)), iptc=st.binary())
def test_no_metadata_raises_anything(packet: bytes, iptc: bytes) -> None:
    try:
        image = PIL.Image.open(io.BytesIO(jpeg(packet, iptc)))
        image.load()
    except (OSError, *DECODE_ERRORS):  # Pillow refuses the file itself
        return
    found = description_of(image)
    assert len(found.caption) <= LONGEST_CAPTION
    assert len("; ".join(found.keywords)) <= LONGEST_KEYWORDS
    for text in (found.caption, *found.keywords):
        assert text == " ".join(text.split())
        assert not {unicodedata.category(character) for character in text} & {"Cc", "Cs", "Zl", "Zp"}
