"""`regard explain --out` draws the regions of a file where they are, however the file is stored."""

import json
from pathlib import Path

import PIL.Image
import pytest

import service.model_loading
from models.matching.checkpoint import load_matcher
from service.model_loading import LoadedModels
from tests.support.cli_runner import Regard
from tests.support.fakes import FakeExtractor, FakeMatcher
from tests.support.marked_pictures import QUERY, MarkExtractor, check_panels, marked_files, size_of
from tests.support.small_matchers import small_weights

NAMES = ["turned-5.jpg", "turned-6.png", "turned-7.jpg", "turned-8.jpg", "huge.jpg", "tiny.png", "panorama.jpg"]


def test_a_training_is_named_by_its_folder(
    regard: Regard, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = small_weights(tmp_path / "run" / "best", "sman")
    loaded = LoadedModels.of(FakeExtractor(), {"best": load_matcher(best)}, views=["best"])
    monkeypatch.setattr(service.model_loading.LoadedModels, "from_settings", lambda settings, stored=True: loaded)
    status, said, _ = regard("explain", "a red wall", files / NAMES[0], "--model", best)
    assert status == 0
    unknown, first, *others = said.splitlines()
    assert unknown == "unknown words: a, wall"
    assert first.split()[1:] == ["run/best"]
    assert others == ["  This model's score is no sum over the words."]


def test_a_sentence_that_only_rules_out_is_explained_whole(
    regard: Regard, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = LoadedModels.of(MarkExtractor(), {"fake": FakeMatcher()}, views=["fake"])
    monkeypatch.setattr(service.model_loading.LoadedModels, "from_settings", lambda settings, stored=True: loaded)
    status, said, _ = regard("explain", "without red", files / NAMES[0], "--json")
    answer = json.loads(said)
    assert (status, answer["note"]) == (0, "Only “red” is ruled out: all is explained.")
    assert [word["text"] for word in answer["explanation"]["words"]][1:-1] == ["without", "red"]


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
    loaded = LoadedModels.of(MarkExtractor(), {"fake": FakeMatcher()}, views=["fake"])
    monkeypatch.setattr(service.model_loading.LoadedModels, "from_settings", lambda settings, stored=True: loaded)
    refused, _, why = regard("explain", QUERY, files / name, "--out", tmp_path / "why.jpg")
    assert refused == 1
    assert "why.jpg: the drawing is a PNG file" in why
    drawn = tmp_path / "why.png"
    assert regard("explain", QUERY, files / name, "--out", drawn)[0] == 0
    with PIL.Image.open(drawn) as sheet:
        check_panels(sheet, size_of(name))
