"""Any allowed picture becomes upright RGB of its full size or less, with a bare thumbnail."""

import io
import struct
from pathlib import Path

import PIL.Image
import pytest

from models.datasets.photographs import open_upright
from service.media import decode_worker, pixels
from service.media.decode_pool import DecodePool
from service.media.formats import open_picture
from tests.support import colour_profiles as profiles
from tests.support.pictures import CORNERS, as_stored, corners, encoded, heic_corners, heic_with_profile, seen_corners


def gif_with_broken_tail(frames: int) -> bytes:
    """A GIF whose first frame is sound and whose further frames hold pixels that do not decode."""
    first = encoded(corners().convert("P", palette=PIL.Image.Palette.ADAPTIVE), "GIF")
    assert first.endswith(b"\x3b")
    broken = b"\x2c" + struct.pack("<HHHHB", 0, 0, 60, 40, 0) + b"\x0b\x02\xff\xff\x00"
    return first[:-1] + frames * broken + b"\x3b"


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *(("JPEG", mode) for mode in ("RGB", "CMYK")),
        *(("PNG", mode) for mode in ("RGB", "RGBA", "P")),
        *(("WEBP", mode) for mode in ("RGB", "RGBA")),
        *(("BMP", mode) for mode in ("RGB", "P")),
        *(("TIFF", mode) for mode in ("RGB", "CMYK", "RGBA")),
        ("GIF", "P"),
    ],
)
def test_every_format_and_mode_becomes_rgb(pool: DecodePool, tmp_path: Path, kind: str, mode: str) -> None:
    file = tmp_path / "no-extension-needed"
    file.write_bytes(encoded(corners().convert(mode), kind))
    found = pool.decode(file)
    assert found.picture.mode == "RGB"
    assert found.picture.size == (found.width, found.height) == (60, 40)
    assert seen_corners(found.picture) == {colour: colour for colour in CORNERS}


@pytest.mark.parametrize(
    ("kind", "mode", "dark", "light"),
    [
        ("PNG", "L", 0, 255),
        ("PNG", "1", 0, 255),
        ("PNG", "I;16", 0, 65535),
        ("TIFF", "I;16", 0, 65535),
        ("TIFF", "I;16B", 0, 65535),
        ("TIFF", "F", 0.0, 1.0),
        ("TIFF", "I", -5, 100_000),
    ],
)
def test_grey_of_any_depth_keeps_dark_and_light(
    pool: DecodePool, tmp_path: Path, kind: str, mode: str, dark: float, light: float
) -> None:
    picture = PIL.Image.new(mode, (20, 20), dark)
    picture.paste(light, (10, 0, 20, 20))
    file = tmp_path / "grey"
    file.write_bytes(encoded(picture, kind))
    found = pool.decode(file).picture
    assert found.getpixel((2, 10)) == (0, 0, 0)
    assert found.getpixel((18, 10)) == (255, 255, 255)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA"])
def test_what_is_transparent_is_white(pool: DecodePool, tmp_path: Path, mode: str) -> None:
    picture = PIL.Image.new("RGBA", (20, 20), (255, 0, 0, 0))
    picture.paste((0, 0, 0, 255), (0, 0, 10, 20))
    file = tmp_path / "see-through.png"
    file.write_bytes(encoded(picture.convert("P") if mode == "PA" else picture.convert(mode), "PNG"))
    found = pool.decode(file).picture
    assert found.getpixel((15, 10)) == (255, 255, 255)
    assert found.getpixel((2, 10)) == (0, 0, 0)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied_and_the_size_is_the_upright_one(
    pool: DecodePool, tmp_path: Path, kind: str, orientation: int
) -> None:
    # Large enough to be reduced, which happens before the turn.
    file = tmp_path / "turned"
    file.write_bytes(as_stored(corners(1800, 1200), kind, orientation))
    found = pool.decode(file)
    assert (found.width, found.height) == (1800, 1200)
    assert found.picture.size == (1333, 889)
    assert seen_corners(found.picture) == {colour: colour for colour in CORNERS}


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_heic_picture_that_says_twice_how_to_turn_it_is_turned_once(
    pool: DecodePool, tmp_path: Path, orientation: int
) -> None:
    file = tmp_path / "phone.heic"
    file.write_bytes(heic_corners(orientation))
    found = pool.decode(file)
    assert found.picture.size == (found.width, found.height) == (120, 80)
    assert seen_corners(found.picture) == {colour: colour for colour in CORNERS}
    assert found.taken_at == 1714979289.0


def test_a_large_picture_is_reduced_and_its_size_told(pool: DecodePool, tmp_path: Path) -> None:
    file = tmp_path / "wide.jpg"
    file.write_bytes(encoded(corners(4000, 60), "JPEG"))
    found = pool.decode(file)
    assert (found.width, found.height) == (4000, 60)
    assert found.picture.size == (1333, 20)


def test_a_line_of_pixels_keeps_one_pixel_of_height(pool: DecodePool, tmp_path: Path) -> None:
    file = tmp_path / "line.png"
    file.write_bytes(encoded(PIL.Image.new("RGB", (30_000, 1), "red"), "PNG"))
    assert pool.decode(file).picture.size == (1333, 1)


def test_only_the_first_frame_of_a_gif_is_decoded(pool: DecodePool, tmp_path: Path) -> None:
    file = tmp_path / "moving.gif"
    file.write_bytes(gif_with_broken_tail(frames=5000))
    assert seen_corners(pool.decode(file).picture) == {colour: colour for colour in CORNERS}


@pytest.mark.parametrize(("kind", "extension"), [("GIF", "gif"), ("WEBP", "webp"), ("PNG", "png")])
def test_what_moves_is_shown_by_the_frame_that_is_searched(
    pool: DecodePool, tmp_path: Path, kind: str, extension: str
) -> None:
    moving, still = tmp_path / f"moving.{extension}", tmp_path / f"still.{extension}"
    others = [PIL.Image.new("RGB", corners().size, colour) for colour in ("black", "gray")]
    moving.write_bytes(encoded(corners(), kind, save_all=True, append_images=others))
    still.write_bytes(encoded(corners(), kind))
    place = tmp_path / f"shown.{extension}"
    assert pool.strip(still, place) == place
    shown = pool.strip(moving, place)
    assert shown.suffix == ".jpg"
    with PIL.Image.open(shown) as found:
        assert seen_corners(found) == {colour: colour for colour in CORNERS}


def test_a_gif_with_a_broken_tail_is_shown_by_its_first_frame(pool: DecodePool, tmp_path: Path) -> None:
    file = tmp_path / "moving.gif"
    file.write_bytes(gif_with_broken_tail(frames=2))
    assert pool.strip(file, tmp_path / "shown.gif").suffix == ".jpg"


def test_broken_exif_is_no_reason_to_refuse_a_picture(pool: DecodePool, tmp_path: Path) -> None:
    file = tmp_path / "odd.jpg"
    file.write_bytes(encoded(corners(), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff"))
    assert pool.decode(file).taken_at is None


# -- colours that a profile describes

SWAPPED = {"red": "blue", "lime": "lime", "blue": "red", "white": "white"}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF", "HEIC"])
def test_colours_are_those_that_the_profile_means(pool: DecodePool, tmp_path: Path, kind: str) -> None:
    extension = {"JPEG": "jpg", "TIFF": "tif"}.get(kind, kind.lower())
    file, thumbnail = tmp_path / "picture", tmp_path / "thumbnail.jpg"
    sent = heic_with_profile() if kind == "HEIC" else encoded(corners(), kind, icc_profile=profiles.swapped())
    file.write_bytes(sent)
    assert seen_corners(pool.decode(file, thumbnail).picture) == SWAPPED
    shown = pool.strip(file, tmp_path / f"shown.{extension}")
    for path in (thumbnail, shown):  # a viewer follows the profile that it keeps, if it keeps one
        assert seen_corners(open_upright(path)) == SWAPPED
        with PIL.Image.open(path) as made:
            keeps = path == shown and kind in ("JPEG", "PNG", "WEBP")
            assert made.info.get("icc_profile") == (profiles.swapped() if keeps else None)


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_inks_are_those_of_the_press_that_the_profile_describes(pool: DecodePool, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "picture"
    cyan = PIL.Image.new("CMYK", (60, 40), (255, 0, 0, 0))
    for profile, seen in ((profiles.press(), (255, 0, 0)), (bytes(200), (0, 255, 255)), (b"", (0, 255, 255))):
        file.write_bytes(encoded(cyan, kind, icc_profile=profile))
        found = pool.decode(file).picture.getpixel((30, 20))
        assert isinstance(found, tuple)
        assert all(abs(one - other) <= 2 for one, other in zip(found, seen, strict=True))


# -- thumbnails and pictures to be served


def test_the_thumbnail_is_small_upright_and_bare(pool: DecodePool, tmp_path: Path) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    exif.get_ifd(0x8825)[1] = "N"
    file, thumbnail = tmp_path / "picture.jpg", tmp_path / "ab" / "cd" / "thumbnail.jpg"
    stored = corners(900, 600).transpose(PIL.Image.Transpose.ROTATE_90)
    file.write_bytes(encoded(stored, "JPEG", exif=exif, comment=b"at home"))
    pool.decode(file, thumbnail)
    with PIL.Image.open(thumbnail) as small:
        assert small.size == (320, 213)
        assert seen_corners(small) == {colour: colour for colour in CORNERS}
        assert not small.getexif()
        assert "comment" not in small.info
    assert [path.name for path in thumbnail.parent.iterdir()] == ["thumbnail.jpg"]


@pytest.mark.parametrize("kind", ["TIFF", "AVIF", "HEIC"])
def test_what_is_encoded_again_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    file, extension, opened = tmp_path / "picture", {"TIFF": "tif"}.get(kind, kind.lower()), []
    file.write_bytes(heic_corners(6) if kind == "HEIC" else as_stored(corners(1800, 1200), kind, 6))

    def counted(path: str) -> PIL.Image.Image:
        opened.append(path)
        return open_picture(path)

    def parts(**wanted: object) -> list[bytes]:
        nothing = {"path": str(file), "pixels": False, "thumbnail": False, "stripped": None, "coordinates": False}
        return decode_worker.decode(nothing | wanted)[1]

    monkeypatch.setattr(pixels, "open_picture", counted)
    together = parts(pixels=True, thumbnail=True, stripped=extension)
    assert len(opened) == 1
    assert together == [*parts(pixels=True), *parts(thumbnail=True), *parts(stripped=extension)]


def test_a_rendered_picture_has_full_size_and_nothing_but_pixels(pool: DecodePool, tmp_path: Path) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 8
    exif.get_ifd(0x8825)[1] = "N"
    file = tmp_path / "picture.tif"
    stored = corners(1800, 1200).transpose(PIL.Image.Transpose.ROTATE_270)
    file.write_bytes(encoded(stored, "TIFF", exif=exif))
    with PIL.Image.open(io.BytesIO(pool.strip(file, tmp_path / "shown.tif").read_bytes())) as shown:
        assert shown.size == (1800, 1200)
        assert not shown.getexif()
        assert seen_corners(shown) == {colour: colour for colour in CORNERS}
