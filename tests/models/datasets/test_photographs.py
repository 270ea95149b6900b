"""Picture files: upright, or with the reason why they cannot be read."""

from functools import cache
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from models.datasets import photographs
from models.datasets.photographs import UnreadablePhotograph, open_reduced, open_upright, why_unreadable
from models.pictures import LONGEST_SIDE
from service.media.pixels import decode_file
from tests.support import colour_profiles as profiles
from tests.support.pictures import encoded
from tests.support.worker_store import noise

TURNED = 6  # the value of EXIF's orientation for a camera held upright
ORIENTATION = 0x0112


def test_a_photograph_is_turned_as_its_camera_was(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    exif = PIL.Image.Exif()
    exif[ORIENTATION] = TURNED
    PIL.Image.new("L", (40, 20)).save(path, exif=exif)
    picture = open_upright(path)
    assert (picture.size, picture.mode) == ((20, 40), "RGB")
    assert why_unreadable(path) is None


@cache
def odd_pictures() -> dict[str, PIL.Image.Image]:
    """Pictures of every kind of pixels, some of them larger than a detector is given."""
    clear = noise(1, 60, 40).convert("RGBA")
    clear.putalpha(PIL.Image.linear_gradient("L").resize(clear.size))
    deep = np.arange(60 * 40, dtype=np.uint16).reshape(40, 60) * 27
    return {
        "large.jpg": noise(2, 3000, 2001),
        "grey.jpg": noise(3, 60, 40).convert("L"),
        "inks.jpg": noise(4, 1500, 40).convert("CMYK"),
        "clear.png": clear,
        "palette.png": clear.convert("P"),
        "deep.png": PIL.Image.fromarray(deep),
        "scan.tif": PIL.Image.fromarray(deep.astype(">u2")),
        "numbers.tif": PIL.Image.fromarray(deep.astype(np.int32)),
        "fractions.tif": PIL.Image.fromarray(deep.astype(np.float32) / 7),
        "clear.webp": clear,
        "bits.png": noise(5, 60, 40).convert("1"),
        "profile.jpg": with_profile(noise(6, 1500, 1000), profiles.swapped()),
        "profile.tif": with_profile(clear, profiles.swapped()),
        "profile.png": with_profile(noise(7, 60, 40).convert("L"), profiles.grey(1.0)),
        "press.jpg": with_profile(noise(8, 1500, 40).convert("CMYK"), profiles.press()),
        "damaged.jpg": with_profile(noise(9, 1500, 40).convert("CMYK"), bytes(200)),
    }


def with_profile(picture: PIL.Image.Image, profile: bytes) -> PIL.Image.Image:
    """A copy of the picture that is saved with a colour profile."""
    copy = picture.copy()
    copy.info["icc_profile"] = profile
    return copy


@pytest.mark.parametrize("orientation", [None, 1, 3, TURNED, 8, 9])
@pytest.mark.parametrize("name", odd_pictures())
def test_what_is_measured_and_learnt_from_is_what_the_service_sees(
    tmp_path: Path, name: str, orientation: int | None
) -> None:
    exif = PIL.Image.Exif()
    if orientation is not None:
        exif[ORIENTATION] = orientation
    odd_pictures()[name].save(path := tmp_path / name, exif=exif)
    served = decode_file(str(path), LONGEST_SIDE).picture
    picture, full = open_reduced(path, LONGEST_SIDE)
    assert picture.mode == "RGB"
    assert why_unreadable(path) is None
    assert np.array_equal(np.asarray(picture), np.asarray(served))
    whole = open_upright(path)
    assert whole.size == full
    assert np.array_equal(np.asarray(whole), np.asarray(decode_file(str(path), None).picture))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
def test_a_file_that_was_cut_or_is_none_is_named_with_its_reason(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    whole = encoded(noise(0, 200, 150), kind)
    path.write_bytes(whole)
    assert why_unreadable(path) is None
    for content in (whole[: len(whole) // 2], whole[:20], b"words", b""):
        path.write_bytes(content)
        reason = why_unreadable(path)
        assert reason
        with pytest.raises(UnreadablePhotograph) as fault:
            open_upright(path)
        assert str(fault.value).startswith(f"{path}: ")


def test_a_picture_that_is_read_but_not_converted_has_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise ValueError("of no known mode")

    monkeypatch.setattr(photographs, "upright_rgb", refused)
    noise(0, 20, 20).save(tmp_path / "a.png")
    assert why_unreadable(tmp_path / "a.png") == "is damaged, or no picture (of no known mode)"


def test_a_file_that_is_not_there_has_a_reason(tmp_path: Path) -> None:
    assert why_unreadable(tmp_path / "gone.jpg") == "No such file or directory"
