"""Picture files: upright, or with the reason why they cannot be read."""

from pathlib import Path

import PIL.Image
import pytest

from models.datasets.photographs import UnreadablePhotograph, open_upright, why_unreadable
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


def test_a_file_that_is_not_there_has_a_reason(tmp_path: Path) -> None:
    assert why_unreadable(tmp_path / "gone.jpg") == "No such file or directory"
