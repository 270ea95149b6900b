"""`regard explain --out` draws the regions of a file where they are, however the file is stored."""

from pathlib import Path

import PIL.Image
import pytest

import service.model_loading
from service.model_loading import LoadedModels
from tests.support.cli_runner import Regard
from tests.support.fakes import FakeMatcher
from tests.support.marked_pictures import QUERY, MarkExtractor, check_panels, marked_files, size_of

NAMES = ["turned-5.jpg", "turned-6.png", "turned-7.jpg", "turned-8.jpg", "huge.jpg", "tiny.png", "panorama.jpg"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, content in marked_files().items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_the_regions_of_a_file_are_drawn_where_they_are(
    regard: Regard, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    loaded = LoadedModels(extractor=MarkExtractor(), matchers={"fake": FakeMatcher()}, views=["fake"])
    monkeypatch.setattr(service.model_loading.LoadedModels, "from_settings", lambda settings, stored=True: loaded)
    drawn = tmp_path / "why.png"
    assert regard("explain", QUERY, files / name, "--out", drawn)[0] == 0
    with PIL.Image.open(drawn) as sheet:
        check_panels(sheet, size_of(name))
