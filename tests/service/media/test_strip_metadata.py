"""Pictures are shown without GPS, notes and whatever else rides along, their pixels and their turn unchanged."""

import contextlib
import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL.PngImagePlugin import PngInfo

from service.media.decode_pool import DecodePool
from service.media.decode_process import DecodeLimits
from service.media.strip_metadata import strip_metadata
from tests.support.pictures import corners, encoded, heic_corners, seen_corners

SECRETS = (b"51 deg N", b"maker note", b"taken at home")
EXTENSIONS = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP", "gif": "GIF"}


def telling(kind: str, orientation: int, **options: Any) -> bytes:
    """A picture whose metadata gives everything away."""
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    exif.get_ifd(0x8825)[0x001D] = SECRETS[0].decode()
    exif.get_ifd(0x8769)[0x927C] = SECRETS[1]
    if kind == "PNG":
        options["pnginfo"] = PngInfo()
        options["pnginfo"].add_text("Comment", SECRETS[2].decode())
    else:
        options["comment"] = SECRETS[2]
        options["xmp"] = b"<x:xmpmeta>" + SECRETS[2] + b"</x:xmpmeta>"
    return encoded(corners(), kind, exif=exif, **options)


def pixels_of(content: bytes) -> list[bytes]:
    with PIL.Image.open(io.BytesIO(content)) as image:
        frames = []
        for frame in range(getattr(image, "n_frames", 1)):
            image.seek(frame)
            frames.append(image.convert("RGBA").tobytes())
        return frames


@pytest.fixture(scope="module")
def pool() -> Iterator[DecodePool]:
    with DecodePool(1, DecodeLimits(timeout_s=20, memory_bytes=2**31, max_pixels=10**6)) as shared:
        yield shared


@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize(
    ("extension", "options"),
    [
        ("jpg", {}),
        ("jpg", {"progressive": True}),
        ("jpg", {"restart_marker_rows": 1}),
        ("jpg", {"icc_profile": b"not quite a profile"}),
        ("png", {}),
        ("webp", {}),
        ("webp", {"lossless": True, "icc_profile": b"not quite a profile"}),
    ],
)
def test_notes_go_and_pixels_profile_and_orientation_stay(
    extension: str, orientation: int, options: dict[str, object]
) -> None:
    content = telling(EXTENSIONS[extension], orientation, **options)
    assert any(secret in content for secret in SECRETS)
    bare = strip_metadata(content, extension)
    assert not any(secret in bare for secret in SECRETS)
    assert pixels_of(bare) == pixels_of(content)
    with PIL.Image.open(io.BytesIO(bare)) as image:
        assert dict(image.getexif()) == ({0x0112: 6} if orientation == 6 else {})
        assert image.info.get("icc_profile") == options.get("icc_profile")


def test_a_moving_gif_moves_on_without_its_comment() -> None:
    frames = [PIL.Image.new("P", (20, 20), shade) for shade in range(5)]
    for frame in frames:
        frame.putpalette(bytes(range(256)) * 3)
    content = encoded(
        frames[0], "GIF", save_all=True, append_images=frames[1:], loop=3, duration=70, comment=SECRETS[2]
    )
    assert SECRETS[2] in content
    bare = strip_metadata(content, "gif")
    assert SECRETS[2] not in bare
    assert pixels_of(bare) == pixels_of(content)
    assert len(pixels_of(bare)) == 5
    with PIL.Image.open(io.BytesIO(bare)) as image:
        assert (image.info["loop"], image.info["duration"]) == (3, 70)


def test_a_moving_png_keeps_its_frames() -> None:
    frames = [PIL.Image.new("RGB", (20, 20), (shade * 40, 0, 0)) for shade in range(4)]
    content = encoded(frames[0], "PNG", save_all=True, append_images=frames[1:])
    assert len(pixels_of(strip_metadata(content, "png"))) == 4


@pytest.mark.parametrize("extension", ["jpg", "png", "webp", "gif"])
def test_what_is_hung_behind_the_picture_goes(extension: str) -> None:
    content = encoded(corners(), EXTENSIONS[extension])
    assert strip_metadata(content + telling("JPEG", 1), extension) == strip_metadata(content, extension)


def test_a_plain_picture_loses_nothing() -> None:
    content = encoded(corners(), "BMP")
    assert strip_metadata(content, "bmp") == content


def test_a_tiff_is_shown_as_a_bare_jpeg(pool: DecodePool, tmp_path: Path) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    exif[0x010E] = SECRETS[2].decode()
    file = tmp_path / "picture.tif"
    file.write_bytes(encoded(corners().transpose(PIL.Image.Transpose.ROTATE_90), "TIFF", exif=exif))
    shown = pool.strip(file, tmp_path / "shown.tif")
    assert shown.name == "shown.jpg"
    content = shown.read_bytes()
    assert SECRETS[2] not in content
    with PIL.Image.open(io.BytesIO(content)) as image:
        assert seen_corners(image) == {colour: colour for colour in seen_corners(corners())}


@pytest.mark.parametrize("kind", ["HEIF", "AVIF"])
def test_a_phones_picture_is_shown_as_a_bare_upright_jpeg(pool: DecodePool, tmp_path: Path, kind: str) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    exif[0x010E] = "at the house of the aunt"
    turned = corners(120, 80).transpose(PIL.Image.Transpose.ROTATE_90)
    content = heic_corners(6) if kind == "HEIF" else encoded(turned, kind, exif=exif)
    assert b"the house of the aunt" in content
    file = tmp_path / "picture"
    file.write_bytes(content)
    extension = "heic" if kind == "HEIF" else "avif"
    shown = pool.strip(file, tmp_path / f"shown.{extension}")
    assert shown.name == "shown.jpg"
    assert b"the house of the aunt" not in shown.read_bytes()
    with PIL.Image.open(shown) as image:
        assert (image.format, image.size) == ("JPEG", (120, 80))
        assert not image.getexif()
        assert seen_corners(image) == {colour: colour for colour in seen_corners(corners())}


@pytest.mark.parametrize("extension", ["jpg", "png", "webp", "gif"])
def test_a_file_of_odd_structure_is_encoded_again_not_passed_on(
    pool: DecodePool, tmp_path: Path, extension: str
) -> None:
    # The name promises another format than the file has: no list of parts can be trusted.
    file = tmp_path / f"picture.{extension}"
    file.write_bytes(telling("PNG" if extension == "jpg" else "JPEG", 1))
    shown = pool.strip(file, tmp_path / f"shown.{extension}")
    assert shown.name == "shown.jpg"
    content = shown.read_bytes()
    assert not any(secret in content for secret in SECRETS)


def profile_name(name: bytes) -> bytes:
    """A PNG whose colour profile bears this name."""
    whole = encoded(corners(), "PNG", icc_profile=b"not quite a profile")
    start = whole.index(b"iCCP") - 4
    (length,) = struct.unpack_from(">I", whole, start)
    old = whole[start : start + 12 + length]
    body = b"iCCP" + name + old[8:-4][old[8:-4].index(b"\0") :]
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return whole.replace(old, chunk)


def test_the_name_of_a_profile_goes_and_the_profile_stays() -> None:
    content = profile_name(SECRETS[2])
    bare = strip_metadata(content, "png")
    assert SECRETS[2] not in bare
    with PIL.Image.open(io.BytesIO(bare)) as image:
        assert image.info["icc_profile"] == b"not quite a profile"
    assert pixels_of(bare) == pixels_of(content)


@pytest.mark.parametrize("kind", [b"pHYs", b"sBIT", b"bKGD", b"gAMA", b"tIME", b"IEND", b"zzZz"])
def test_a_png_chunk_that_carries_more_than_it_needs_goes(kind: bytes) -> None:
    whole = encoded(corners(), "PNG")
    chunk = kind + SECRETS[2] * 3
    chunk = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    content = whole[:-12] + chunk if kind == b"IEND" else whole[:33] + chunk + whole[33:]
    bare = strip_metadata(content, "png")
    assert SECRETS[2] not in bare
    assert pixels_of(bare) == pixels_of(whole)


@pytest.mark.parametrize("marker", [0xE1, 0xE2, 0xEC, 0xED, 0xEF, 0xF0, 0xF6, 0xFD, 0xFE])
def test_a_jpeg_segment_of_any_other_kind_goes(marker: int) -> None:
    whole = encoded(corners(), "JPEG", comment=SECRETS[0])
    segment = bytes([0xFF, marker]) + struct.pack(">H", 2 + len(SECRETS[2])) + SECRETS[2]
    for place in (2, whole.index(b"\xff\xda")):
        bare = strip_metadata(whole[:place] + segment + whole[place:], "jpg")
        assert not any(secret in bare for secret in SECRETS)
        assert pixels_of(bare) == pixels_of(whole)


@pytest.mark.parametrize(("marker", "name"), [(0xE0, b"JFIF\0\1\1\0\0\1\0\1"), (0xEE, b"Adobe\0\x64\0\0\0\0\1")])
def test_what_a_colour_segment_carries_besides_goes(marker: int, name: bytes) -> None:
    whole = encoded(corners(), "JPEG")
    segment = bytes([0xFF, marker]) + struct.pack(">H", 2 + len(name + SECRETS[2])) + name + SECRETS[2]
    bare = strip_metadata(whole[:2] + segment + whole[2:], "jpg")
    assert SECRETS[2] not in bare
    assert bytes([0xFF, marker]) in bare
    with PIL.Image.open(io.BytesIO(bare)) as image:
        assert image.size == (60, 40)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1"])
def test_a_bmp_keeps_its_pixels_and_loses_what_lies_between(mode: str) -> None:
    picture = corners().quantize(7) if mode == "P" else corners().convert(mode)
    whole = encoded(picture, "BMP")
    assert strip_metadata(whole, "bmp") == whole
    (start,) = struct.unpack_from("<I", whole, 10)
    gap = SECRETS[0] * 4
    moved = whole[:6] + SECRETS[1][:4] + struct.pack("<I", start + len(gap)) + whole[14:start] + gap + whole[start:]
    bare = strip_metadata(moved + SECRETS[2], "bmp")
    assert bare == whole
    assert pixels_of(bare) == pixels_of(moved)


def test_a_bmp_with_a_profile_loses_it() -> None:
    whole = encoded(corners(), "BMP")
    header = bytearray(124)
    header[:40] = whole[14:54]
    struct.pack_into("<I", header, 0, 124)
    header[56:60] = b"KNIL"
    struct.pack_into("<II", header, 112, 124, len(SECRETS[0]))
    start = 14 + 124 + len(SECRETS[0])
    content = whole[:10] + struct.pack("<I", start) + bytes(header) + SECRETS[0] + whole[54:]
    bare = strip_metadata(content, "bmp")
    assert SECRETS[0] not in bare
    assert pixels_of(bare) == pixels_of(whole)


def test_text_inside_a_gif_or_a_webp_frame_goes() -> None:
    frames = [PIL.Image.new("RGB", (20, 20), (shade * 50, 0, 0)) for shade in range(4)]
    gif = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    start = 13 + (3 << (gif[10] & 7) + 1 if gif[10] & 0x80 else 0)
    text = b"!\x01\x0c" + bytes(12) + bytes([len(SECRETS[0])]) + SECRETS[0] + b"\0"
    loop = b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0" + bytes([len(SECRETS[1])]) + SECRETS[1] + b"\0"
    bare = strip_metadata(gif[:start] + text + loop + gif[start:], "gif")
    assert not any(secret in bare for secret in SECRETS)
    assert pixels_of(bare) == pixels_of(gif)
    webp = encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    place = webp.index(b"ANMF")
    (length,) = struct.unpack_from("<I", webp, place + 4)
    secret = b"note" + struct.pack("<I", len(SECRETS[1])) + SECRETS[1]
    longer = webp[:place] + b"ANMF" + struct.pack("<I", length + len(secret)) + webp[place + 8 : place + 8 + length]
    longer += secret + webp[place + 8 + length :]
    longer = longer[:4] + struct.pack("<I", len(longer) - 8) + longer[8:]
    bare = strip_metadata(longer, "webp")
    assert SECRETS[1] not in bare
    assert pixels_of(bare) == pixels_of(webp)


def with_note(content: bytes, extension: str) -> tuple[bytes, int]:
    """The picture with a note near its beginning, and where the note ends."""
    secret = SECRETS[2]
    match extension:
        case "jpg":
            at, note = 2, b"\xff\xfe" + struct.pack(">H", 2 + len(secret)) + secret
        case "png":
            body = b"tEXtComment\0" + secret
            at, note = 8, struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
        case "webp":
            at, note = 12, b"note" + struct.pack("<I", len(secret)) + secret + b"\0" * (len(secret) % 2)
            content = content[:4] + struct.pack("<I", len(content) - 8 + len(note)) + content[8:]
        case "gif":
            at = 13 + (3 << (content[10] & 7) + 1 if content[10] & 0x80 else 0)
            note = b"!\xfe" + bytes([len(secret)]) + secret + b"\0"
        case _:
            (at,), note = struct.unpack_from("<I", content, 10), secret
            content = content[:10] + struct.pack("<I", at + len(note)) + content[14:]
    return content[:at] + note + content[at:], at + len(note)


@settings(max_examples=150)
@given(
    extension=st.sampled_from([*EXTENSIONS, "bmp"]),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6),
    cut=st.integers(1, 10_000),
    whole_head=st.booleans(),
)
def test_a_damaged_file_is_stripped_or_refused(
    extension: str, flips: list[tuple[int, int]], cut: int, whole_head: bool
) -> None:
    sound, note_end = with_note(encoded(corners(), EXTENSIONS.get(extension, "BMP")), extension)
    assert SECRETS[2] in sound
    assert SECRETS[2] not in strip_metadata(sound, extension, orientation=1)
    content, start = bytearray(sound), note_end if whole_head else 0
    for place, value in flips:
        content[start + place % (len(content) - start)] = value
    damaged = bytes(content[:cut]) if cut % 3 == 0 else bytes(content)
    with contextlib.suppress(ValueError, IndexError, struct.error):
        bare = strip_metadata(damaged, extension, orientation=1)
        # Damage before a note may turn it into a part of the picture; whatever comes behind it may not.
        assert not (whole_head and SECRETS[2] in bare)
