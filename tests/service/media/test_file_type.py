"""A file is judged by its first bytes: its name counts for nothing, and every refusal says what to do."""

import contextlib
import io
import struct
import warnings
import zipfile
from pathlib import Path

import PIL.Image
import pytest

from service.errors import UnreadablePicture
from service.media.file_type import image_extension
from tests.support.pictures import claiming_size, corners, encoded, heic_corners, huge_png

MAX_PIXELS = 80_000_000


def test_pictures_get_the_extension_of_their_content(tmp_path: Path) -> None:
    kinds = {
        "JPEG": "jpg",
        "PNG": "png",
        "WEBP": "webp",
        "BMP": "bmp",
        "TIFF": "tif",
        "GIF": "gif",
        "MPO": "jpg",
        "AVIF": "avif",
    }
    for kind, extension in kinds.items():
        file = tmp_path / "misleading.txt"
        file.write_bytes(encoded(corners(), kind))
        assert image_extension(file, MAX_PIXELS) == extension


def test_phones_pictures_are_told_from_films(tmp_path: Path) -> None:
    file = tmp_path / "photo"
    file.write_bytes(heic_corners())
    assert image_extension(file, MAX_PIXELS) == "heic"
    file.write_bytes(heic_corners().replace(b"ftypheic", b"ftypmif1", 1))
    assert image_extension(file, MAX_PIXELS) == "heic"
    file.write_bytes(heic_corners().replace(b"ftypheic", b"ftypisom", 1))
    with pytest.raises(UnreadablePicture, match="film"):
        image_extension(file, MAX_PIXELS)


@pytest.mark.parametrize("kind", ["HEIF", "AVIF"])
def test_the_pixels_of_a_phones_picture_are_counted_undecoded(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "bomb"
    file.write_bytes(claiming_size(of_kind(kind), 12_000, 8_000))
    with pytest.raises(UnreadablePicture, match="megapixels"):
        image_extension(file, MAX_PIXELS)


@pytest.mark.parametrize("kind", ["HEIF", "AVIF"])
def test_thousands_of_boxes_are_refused_before_a_decoder_sees_them(tmp_path: Path, kind: str) -> None:
    whole, file = of_kind(kind), tmp_path / "boxes"
    start = int.from_bytes(whole[:4], "big")
    file.write_bytes(whole[:start] + 3000 * b"\0\0\0\x08free" + whole[start:])
    with pytest.raises(UnreadablePicture, match="more than 2000 boxes"):
        image_extension(file, MAX_PIXELS)
    inside = b"meta" + bytes(4) + 3000 * b"\0\0\0\x08free"
    file.write_bytes(whole[:start] + struct.pack(">I", 4 + len(inside)) + inside + whole[start:])
    with pytest.raises(UnreadablePicture, match="more than 2000 boxes"):
        image_extension(file, MAX_PIXELS)


def of_kind(kind: str) -> bytes:
    return heic_corners() if kind == "HEIF" else encoded(corners(), kind)


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("photo.jpg", encoded(corners(), "JPEG"))
    return buffer.getvalue()


NOT_PICTURES = {
    "empty": (b"", "empty"),
    "zeros": (bytes(1_000_000), "nothing but zeros"),
    "text": ("Schöne Grüße\n".encode() * 1000, "text"),
    "zip": (zipped(), "unpack"),
    "heic": (b"\0\0\0\x18ftypheic" + bytes(100), "HEIC"),
    "film": (b"\0\0\0\x18ftypisom" + bytes(100), "film"),
    "pdf": (b"%PDF-1.7\n%\xff\xff", "PDF"),
    "noise": (b"\x93\x1f\xfe" * 100, "no picture"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "text"),
    "eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "text"),
}


@pytest.mark.parametrize("kind", NOT_PICTURES)
def test_what_is_no_picture_is_told_what_it_is(tmp_path: Path, kind: str) -> None:
    content, said = NOT_PICTURES[kind]
    file = tmp_path / "photo.jpg"
    file.write_bytes(content)
    with pytest.raises(UnreadablePicture, match=said):
        image_extension(file, MAX_PIXELS)


def test_each_refusal_has_its_own_words(tmp_path: Path) -> None:
    said = set()
    for content, _ in NOT_PICTURES.values():
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(UnreadablePicture) as refused:
            image_extension(tmp_path / "file", MAX_PIXELS)
        said.add(refused.value.detail)
    assert len(said) == len(NOT_PICTURES) - 2  # three of them are text


@pytest.mark.parametrize(("width", "height"), [(20_000, 20_000), (12_000, 8_000), (65_500, 65_500)])
def test_too_many_pixels_are_refused_undecoded(tmp_path: Path, width: int, height: int) -> None:
    file = tmp_path / "bomb.png"
    file.write_bytes(huge_png(width, height, rows=1))  # which only a decoder would notice
    with pytest.raises(UnreadablePicture, match="megapixels"):
        image_extension(file, MAX_PIXELS)


def test_the_limit_itself_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "wide.png"
    file.write_bytes(huge_png(65_500, 1))
    assert image_extension(file, max_pixels=65_500) == "png"
    with pytest.raises(UnreadablePicture):
        image_extension(file, max_pixels=65_499)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "AVIF", "HEIF"])
def test_every_beginning_of_a_picture_is_taken_or_refused(tmp_path: Path, kind: str) -> None:
    whole = of_kind(kind)
    file = tmp_path / "cut"
    for length in range(1, min(len(whole), 1200), 7):
        file.write_bytes(whole[:length])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(UnreadablePicture):
                assert image_extension(file, MAX_PIXELS)


def test_trouble_of_the_system_is_not_the_pictures(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        image_extension(tmp_path / "nowhere", MAX_PIXELS)


def test_a_header_alone_is_read(tmp_path: Path) -> None:
    # A picture of 70 megapixels whose pixels are missing: reading any of them would fail.
    file = tmp_path / "headed.jpg"
    buffer = io.BytesIO()
    PIL.Image.new("L", (64, 64)).save(buffer, "JPEG")
    content = bytearray(buffer.getvalue())
    frame = content.index(b"\xff\xc0")
    content[frame + 5 : frame + 9] = (7_000).to_bytes(2) + (10_000).to_bytes(2)
    file.write_bytes(content)
    assert image_extension(file, MAX_PIXELS) == "jpg"
