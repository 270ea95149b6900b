"""Pictures are shown without GPS, notes and whatever else rides along, their pixels and their turn unchanged."""

import io
from collections.abc import Iterator
from pathlib import Path

import PIL.Image
import pytest
from PIL.PngImagePlugin import PngInfo

from service.media.decode_pool import DecodeLimits, DecodePool
from service.media.strip_metadata import read_without_metadata, strip_metadata
from tests.support.pictures import corners, encoded, seen_corners

SECRETS = (b"51 deg N", b"maker note", b"taken at home")
EXTENSIONS = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP", "gif": "GIF"}


def telling(kind: str, orientation: int, **options: object) -> bytes:
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
    content, media_type = read_without_metadata(file, "tif", pool)
    assert media_type == "image/jpeg"
    assert SECRETS[2] not in content
    with PIL.Image.open(io.BytesIO(content)) as image:
        assert seen_corners(image) == {colour: colour for colour in seen_corners(corners())}


@pytest.mark.parametrize("extension", ["jpg", "png", "webp", "gif"])
def test_a_file_of_odd_structure_is_encoded_again_not_passed_on(
    pool: DecodePool, tmp_path: Path, extension: str
) -> None:
    # The name promises another format than the file has: no list of parts can be trusted.
    file = tmp_path / f"picture.{extension}"
    file.write_bytes(telling("PNG" if extension == "jpg" else "JPEG", 1))
    content, media_type = read_without_metadata(file, extension, pool)
    assert media_type == "image/jpeg"
    assert not any(secret in content for secret in SECRETS)
