"""Features without pictures as they are served: searched, explained as far as they say, and shown as what they are."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from models.datasets.feature_collection import open_collection
from service.api.schemas.resources import ImagesAnswer, RegionsAnswer
from service.api.schemas.results import ImageAnswer, TextAnswer
from service.cli.terminal.hits import explanation_lines
from service.errors import Misconfigured
from service.model_loading import LoadedModels
from service.settings import Settings
from service.worker.maintenance.repair import RecordRepair
from tests.models.datasets.test_bottom_up_tsv import six, ten
from tests.support.fakes import FakeExtractor
from tests.support.feature_layouts import PAIRS, THEIRS, built, take_in, theirs, totals
from tests.support.library import two_coloured
from tests.support.small_matchers import small_matcher, small_weights
from tests.support.web_app import Web, checked, png, problem


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    """A server over five pictures in SCAN's layout."""
    data = tmp_path / "data"
    assert totals(take_in(theirs(tmp_path), data)) == (5, 0, 0)
    made = Web(Settings(data_dir=data, decode_workers=1), built(data))
    yield made
    made.close()


@pytest.mark.slow
def test_they_are_found_by_words_and_explained_as_far_as_they_say(web: Web) -> None:
    for row, pair in enumerate(PAIRS):
        answer = checked(web.text(" ".join(pair), explain=True, k=2), 200, TextAnswer)
        best = answer["results"][0]
        assert best["filename"] == f"{100 + row}"
        assert (best["url"], best["thumbnail_url"], best["width"], best["height"]) == (None, None, None, None)
        assert best["captions"] == [f"{row} {n}" for n in range(5)]
        why = best["explanation"]
        assert why["regions"] == [{"box": None, "label": "region", "confidence": None}] * 4
        assert np.array(why["attention"]).shape == (len(why["words"]), 4)
        assert sum(why["contributions"]) == pytest.approx(best["score"], abs=1e-5)
        *of_words, of_marks = explanation_lines(why)
        assert of_marks.startswith("  (<start> and <end>) ")
        assert [line.split()[::2] for line in of_words] == [[word, "region"] for word in pair]  # and no box


def test_they_are_asked_with_by_their_ids(web: Web) -> None:
    listed = checked(web.get("/images"), 200, ImagesAnswer)["images"]
    assert [one["filename"] for one in listed] == ["100", "101", "102", "103", "104"]
    assert {(one["state"], one["url"], one["thumbnail_url"]) for one in listed} == {("ready", None, None)}
    form = {"image_id": (None, listed[1]["image_id"]), "explain": (None, "true")}
    captions = checked(web.request("POST", "/search/image", files=form), 200, ImageAnswer)
    assert len(captions["results"]) == 10
    assert captions["results"][0]["explanation"]["regions"][0]["box"] is None
    form = {"image_id": (None, listed[1]["image_id"]), "target": (None, "images"), "k": (None, "4")}
    alike = checked(web.request("POST", "/search/image", files=form), 200, ImageAnswer)
    assert {hit["filename"] for hit in alike["results"]} == {"100", "102", "103", "104"}


def test_what_needs_a_picture_says_that_there_is_none(web: Web) -> None:
    (image_id, *_) = [one["image_id"] for one in web.get("/images").json()["images"]]
    for path in (f"/images/{image_id}", f"/images/{image_id}/thumbnail"):
        answer = web.request("GET", path, headers={"if-none-match": f'"{image_id}"'})
        assert "was ingested as features only" in problem(answer, 404, "not-found")["detail"]
    found = checked(web.get(f"/images/{image_id}/regions"), 200, RegionsAnswer)
    assert (found["width"], found["height"], found["extractor"], len(found["regions"])) == (None, None, THEIRS, 4)
    sent = web.request("POST", "/ingest", files={"images": ("a.png", png(two_coloured("red", "red")))})
    assert "another data directory" in problem(sent, 409, "features-only")["detail"]
    sent = web.request("POST", "/search/image", files={"image": ("a.png", png(two_coloured("red", "red")))})
    assert "image_id" in problem(sent, 409, "features-only")["detail"]
    assert web.get("/images").json()["next"] is None


def test_they_are_deleted_and_come_back_in_their_place(web: Web, tmp_path: Path) -> None:
    (first, second, *_) = [one["image_id"] for one in web.get("/images").json()["images"]]
    assert web.request("DELETE", f"/images/{first}").status_code == 204
    assert web.text("red green", k=5).json()["results"][0]["image_id"] != first
    taken = take_in(theirs(tmp_path), tmp_path / "data")
    assert totals(taken) == (1, 4, 0)
    assert sum(one.restored for one in taken) == 1
    assert web.text("red green", k=5).json()["results"][0]["image_id"] == first
    slots = [web.services.storage.catalog.image(one).slot for one in (first, second)]  # type: ignore[union-attr]
    assert (slots, web.services.storage.catalog.num_slots()) == ([0, 1], 5)


def test_labels_of_several_sources_stay_what_they_were(tmp_path: Path) -> None:
    for name, objects in (("a", "dog\ncat"), ("b", "cat\nbird")):
        (tmp_path / f"{name}.tsv").write_text(ten(name, 2, [1, 0]))
        (tmp_path / f"{name}.txt").write_text(objects)
        source = open_collection([tmp_path / f"{name}.tsv"], extractor=THEIRS, objects=tmp_path / f"{name}.txt")
        take_in(source, tmp_path / "data")
    (tmp_path / "c.tsv").write_text(six("c", 1, seed=5))
    take_in(open_collection([tmp_path / "c.tsv"], extractor=THEIRS), tmp_path / "data")
    matcher = small_matcher("scan-t2i-avg", feature_dim=4, extractor=THEIRS)
    matcher.digest = "small"
    web = Web(Settings(data_dir=tmp_path / "data", decode_workers=1), built(tmp_path / "data", matcher))
    labels = []
    for one in web.get("/images").json()["images"]:
        found = checked(web.get(f"/images/{one['image_id']}/regions"), 200, RegionsAnswer)
        labels.append([region["label"] for region in found["regions"]])
        assert (found["width"], found["height"]) == (640, 480)
        assert all(region["box"] is not None for region in found["regions"])
    assert labels == [["cat", "dog"], ["bird", "cat"], ["region"]]
    web.close()


def test_a_server_is_told_which_models_it_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.tsv").write_text(six("a", 2))
    take_in(open_collection([tmp_path / "a.tsv"], extractor=THEIRS), tmp_path / "data")
    small_weights(tmp_path / "strange", "scan-t2i-avg")
    monkeypatch.setattr("service.model_loading.detector_of", lambda folder, device: FakeExtractor())

    def loaded(weights: str) -> LoadedModels:
        return LoadedModels.from_settings(Settings(data_dir=tmp_path / "data", models=(str(tmp_path / weights),)))

    with pytest.raises(Misconfigured, match=r"holds features of their-features: set REGARD_MODELS or REGARD_DATA_DIR"):
        loaded("strange")
    small_weights(tmp_path / "wide", "scan-t2i-avg", extractor=THEIRS)
    with pytest.raises(Misconfigured, match="features of 16 numbers, and those of their-features have 4"):
        loaded("wide")
    small_weights(tmp_path / "right", "scan-t2i-avg", extractor=THEIRS, feature_dim=4)
    assert loaded("right").extractor.digest == THEIRS


def test_what_a_damaged_disk_took_is_not_made_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    take_in(theirs(tmp_path), tmp_path / "data")
    records = tmp_path / "data" / "regions" / "records.bin"
    records.write_bytes(records.read_bytes()[: records.stat().st_size * 3 // 5])
    built(tmp_path / "data")
    assert RecordRepair.__module__ in {record.name for record in caplog.records}
    assert "has lost its regions, which came without a picture" in caplog.text


@pytest.mark.realdata
def test_published_features_are_searched_without_their_pictures(data_dir: Path, tmp_path: Path) -> None:
    sample = data_dir / "butd-sample"
    objects = sample / "genome" / "1600-400-20" / "objects_vocab.txt"
    collection = open_collection([sample / "train2014_obj36.tsv"], objects=objects)
    assert totals(take_in(collection, tmp_path, batch=4)) == (10, 0, 0)
    words = tuple(dict.fromkeys(label for one in collection.pictures() for label in one.labels if " " not in label))
    matcher = small_matcher("scan-t2i-avg", feature_dim=2048, extractor="bottom-up-36", words=words)
    matcher.digest = "small"
    web = Web(Settings(data_dir=tmp_path, decode_workers=1), built(tmp_path, matcher))
    answer = checked(web.text(" ".join(words[:3]), explain=True, k=10), 200, TextAnswer)
    assert len(answer["results"]) == 10
    assert answer["unknown_words"] == []
    for hit in answer["results"]:
        with PIL.Image.open(sample / "images" / f"{hit['filename']}.jpg") as picture:
            assert (hit["width"], hit["height"]) == picture.size
        regions = hit["explanation"]["regions"]
        assert len(regions) == 36
        assert {region["label"] for region in regions} <= set(objects.read_text().replace("\n", ",").split(","))
        for region in regions:
            x1, y1, x2, y2 = region["box"]
            assert 0 <= x1 < x2 <= hit["width"] + 1
            assert 0 <= y1 < y2 <= hit["height"] + 1
            assert 0 < region["confidence"] <= 1
        assert sum(hit["explanation"]["contributions"]) == pytest.approx(hit["score"], abs=1e-4)
    web.close()
