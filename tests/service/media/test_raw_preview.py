"""RAW photographs are read by the picture that each holds, in the process that decodes, or refused with advice."""

import json
import sys
from pathlib import Path

import PIL.Image
import pytest

from service.errors import UnreadablePicture
from service.media.decode_pool import DecodePool
from service.media.decode_worker import handle_request
from service.media.file_type import image_extension
from service.media.raw_preview import is_raw
from service.settings import Settings
from tests.support.cli_runner import Regard
from tests.support.library import two_coloured
from tests.support.pictures import corners, encoded, seen_corners
from tests.support.raw_pictures import dng
from tests.support.running_server import running_server

MAX_PIXELS = 80_000_000
MAKE, SUBFILE_TYPE = 0x010F, 0x00FE


def write(path: Path, width: int = 600, height: int = 400, **known: int) -> Path:
    path.write_bytes(dng(encoded(corners(width, height), "JPEG"), width, height, **known))  # type: ignore[arg-type]
    return path


def as_the_sensor_lay(orientation: int) -> PIL.Image.Image:
    """`corners` as a camera held under that EXIF orientation stores it."""
    turns = {1: None, 3: PIL.Image.Transpose.ROTATE_180, 6: PIL.Image.Transpose.ROTATE_90}
    turn = turns[orientation]
    return corners(600, 400) if turn is None else corners(600, 400).transpose(turn)


@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_the_picture_in_a_raw_file_is_decoded_upright_in_the_sandbox(tmp_path: Path, orientation: int) -> None:
    stored = as_the_sensor_lay(orientation)
    path = tmp_path / "photo.raw"
    path.write_bytes(dng(encoded(stored, "JPEG"), *stored.size, orientation))
    shown, thumbnail = tmp_path / "shown.raw", tmp_path / "thumbnail.jpg"
    with DecodePool.from_settings(Settings(), workers=1, readable=[tmp_path]) as pool:
        assert pool.inspect(path) == "raw"
        decoded = pool.decode(path, thumbnail, shown)
        assert pool.protection()["seccomp"] == "on"
    assert (decoded.width, decoded.height, decoded.picture.size) == (600, 400, (600, 400))
    assert decoded.taken_at == 1714557600.0
    with PIL.Image.open(thumbnail) as small, PIL.Image.open(shown.with_suffix(".jpg")) as large:
        for seen in (decoded.picture, small, large):
            assert seen_corners(seen.convert("RGB")) == {name: name for name in seen_corners(corners())}
        assert not large.getexif()


def test_a_preview_that_is_too_small_or_too_large_is_refused(tmp_path: Path) -> None:
    small = write(tmp_path / "a", 160, 120)
    with pytest.raises(UnreadablePicture, match=r"RAW file: export it as JPEG, as .* only 160 x 120 pixels"):
        image_extension(small, MAX_PIXELS)
    assert image_extension(write(tmp_path / "b"), MAX_PIXELS) == "raw"
    with pytest.raises(UnreadablePicture, match="600 x 400 pixels, more than"):
        image_extension(tmp_path / "b", 200_000)


def test_a_damaged_raw_file_is_told_as_one(tmp_path: Path) -> None:
    whole = write(tmp_path / "a").read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(whole[:8] + whole[5000:])  # tags point to what is not there
    with pytest.raises(UnreadablePicture):
        image_extension(cut, MAX_PIXELS)
    made_up = tmp_path / "made up"
    made_up.write_bytes(b"FUJIFILMCCD-RAW " + bytes(500))
    with pytest.raises(UnreadablePicture, match=r"RAW file: export it as JPEG, as this camera's are not known here"):
        image_extension(made_up, MAX_PIXELS)


def test_without_what_reads_them_they_are_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a")
    monkeypatch.setitem(sys.modules, "rawpy", None)  # as if it were not installed
    with pytest.raises(UnreadablePicture, match=r"extra `raw` where the service runs \(pip install rawpy\)"):
        image_extension(path, MAX_PIXELS)
    request = {
        "do": "decode",
        "path": str(path),
        "pixels": True,
        "thumbnail": False,
        "stripped": None,
        "coordinates": False,
    }
    reply, parts = handle_request(request, MAX_PIXELS)
    assert ("extra `raw`" in reply["reason"], reply["final"], parts) == (True, True, [])


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\0\0\0\x18ftypcrx \0\0\0\0", True),
        (b"IIRO\x08\0\0\0", True),
        (b"II*\0\x10\0\0\0CR\x02\0", True),
        (b"\0\0\0\x18ftypheic", False),
        (b"\xff\xd8\xff\xe0", False),
        (b"II*\0\xff\xff\xff\xff", False),
        (b"MM\0*", False),
        (b"", False),
    ],
)
def test_a_raw_file_is_known_by_its_first_bytes(tmp_path: Path, head: bytes, expected: bool) -> None:
    (tmp_path / "a").write_bytes(head)
    assert is_raw(tmp_path / "a") is expected


def test_ordinary_tiff_pictures_stay_what_they_are(tmp_path: Path) -> None:
    tags = PIL.Image.Exif()
    tags[MAKE] = "Scanner"
    for number, exif in enumerate([PIL.Image.Exif(), tags]):
        path = tmp_path / f"{number}.tif"
        corners().save(path, exif=exif)
        assert not is_raw(path)
        assert image_extension(path, MAX_PIXELS) == "tif"


@pytest.mark.parametrize("installed", [True, False])
def test_a_command_takes_raw_photographs_in_or_skips_them_and_says_how(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    monkeypatch.setattr("service.cli.picture_files.can_read_raw", lambda: installed)
    folder = tmp_path / "photos"
    folder.mkdir()
    two_coloured("red", "red").save(folder / "red.png")
    (folder / "IMG_0001.DNG").write_bytes(dng(encoded(two_coloured("blue", "blue", 600, 400), "JPEG"), 600, 400))
    with running_server(tmp_path / "data") as url:
        status, said, noted = regard("ingest", folder, "--url", url)
        found = json.loads(regard("search", "blue", "--match", "pictures", "-k", 1, "--url", url, "--json")[1])
    assert status == 0
    rows = [line.rsplit(maxsplit=1) for line in said.splitlines()[1:]]
    if installed:
        assert rows == [["taken in", "2"]]
        assert found["results"][0]["filename"] == "IMG_0001.DNG"
    else:
        assert rows == [["taken in", "1"], ["skipped: RAW photographs", "1"]]
        assert "if the extra `raw` is installed: pip install rawpy" in noted
