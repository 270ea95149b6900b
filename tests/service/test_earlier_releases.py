"""Data directories of earlier releases open, search and go on as they did.

tests/data/release-0.1.tar.xz was made by release 0.1: `regard serve --models bfan-equal` took in 20 drawn pictures with
captions, tags and dates, of which one was deleted afterwards. release-0.1.json is what it then answered. To make the
archive smaller, its thumbnails, which are made anew, were removed, and the numbers of its regions' features were
rounded to five significant bits, with their rows' checksums made anew.
"""

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.extractors.coco_classes import COCO_CLASSES
from service.api.schemas.results import ImageAnswer, TextAnswer
from service.model_loading import LoadedModels
from service.settings import Settings
from service.worker.process import open_worker
from tests.support.fakes import WideExtractor, WideMatcher
from tests.support.pictures import encoded
from tests.support.project_files import ROOT
from tests.support.web_app import Web, checked, problem
from tests.support.worker_store import Store, noise

pytestmark = pytest.mark.slow

MODEL = "bfan-equal"
DATA = ROOT / "tests" / "data"
KEPT = ("captions", "tags")  # of a result, whatever ranks it


def unpack(folder: Path) -> Path:
    """The data directory, in `folder`."""
    with tarfile.open(DATA / "release-0.1.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "data"


@pytest.fixture(scope="module")
def loaded() -> LoadedModels:
    return LoadedModels.from_settings(Settings(models=(MODEL,)), stored=False)


@pytest.fixture
def data_directory(tmp_path: Path) -> Path:
    return unpack(tmp_path)


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory, loaded: LoadedModels) -> Path:
    """The data directory once the shipped detector and model have taken it over."""
    data = unpack(tmp_path_factory.mktemp("migrated"))
    settings = Settings(data_dir=data, models=(MODEL,), decode_workers=1)
    with open_worker(settings, loaded.extractor, [loaded.matcher(MODEL)]) as (worker, _):
        while worker.run_once():
            pass
    return data


@pytest.fixture
def web(migrated: Path, loaded: LoadedModels) -> Iterator[Web]:
    web = Web(Settings(data_dir=migrated, models=(MODEL,), decode_workers=1), loaded)
    yield web
    web.close()


@pytest.fixture
def release_answers() -> Any:
    return json.loads((DATA / "release-0.1.json").read_text())


def test_it_finds_what_it_found(web: Web, release_answers: Any) -> None:
    """All pictures, with what is known of them; among the first those whose text has the words."""
    for query, expected in release_answers["text"].items():
        answer = checked(web.text(query, k=20, explain=True, match="both"), 200, TextAnswer)
        known = {hit["image_id"]: hit for hit in expected}
        assert len(answer["results"]) == 19
        assert known.keys() <= {hit["image_id"] for hit in answer["results"]}
        for hit in answer["results"]:
            before = known.get(hit["image_id"], hit)
            assert {name: hit[name] for name in KEPT} == {name: before[name] for name in KEPT}
        by_text = [place for place, hit in enumerate(answer["results"]) if "text" in hit["found_by"]]
        described = [place for place, hit in enumerate(answer["results"]) if query in hit["captions"]]
        assert set(described) <= set(by_text)
        assert by_text == list(range(len(by_text)))
    for target in ("captions", "images"):
        for image_id, expected in release_answers[target].items():
            form = {"image_id": (None, image_id), "target": (None, target), "k": (None, "5")}
            answer = checked(web.request("POST", "/search/image", files=form), 200, ImageAnswer)
            assert len(answer["results"]) == len(expected)


def test_its_pictures_are_there_and_the_deleted_one_is_not(web: Web, release_answers: Any) -> None:
    listed = web.get("/images", limit=100).json()["images"]
    assert len(listed) == 19
    assert release_answers["deleted"] not in {image["image_id"] for image in listed}
    assert web.get(f"/images/{release_answers['deleted']}").status_code == 404
    for image in listed:
        assert web.get(image["url"]).status_code == 200
        assert web.get(image["thumbnail_url"]).status_code == 200
        regions = web.get(f"{image['url']}/regions").json()["regions"]
        assert regions[0]["label"] == "picture"
    assert web.get("/failures").json()["failures"] == release_answers["failures"]["failures"]
    (model,) = web.get("/models").json()["models"]
    assert (model["state"], model["pictures"], model["missing_pictures"]) == ("ready", 19, 0)


@pytest.mark.slow
def test_a_worker_goes_on_with_it(tmp_path: Path, migrated: Path, loaded: LoadedModels) -> None:
    data_directory = shutil.copytree(migrated, tmp_path / "data")
    store = Store(data_directory)
    added = store.accept(encoded(noise(1, 64, 48), "PNG"), captions=["coloured noise"])
    settings = Settings(data_dir=data_directory, models=(MODEL,), decode_workers=1)
    with open_worker(settings, loaded.extractor, [loaded.matcher(MODEL)]) as (worker, _):
        while worker.run_once():
            pass
    assert store.image(added).slot == 20
    store.catalog.close()
    web = Web(settings, loaded)
    answer = checked(web.text("coloured noise", k=20), 200, TextAnswer)
    assert added in {hit["image_id"] for hit in answer["results"]}
    assert len(answer["results"]) == 20
    web.close()


def test_another_detector_finds_its_regions_anew(data_directory: Path, release_answers: Any) -> None:
    store = Store(data_directory)
    before = {image.image_id: image.slot for image in store.catalog.list_images(None, 100)}
    former = store.catalog.latest_extractor()
    matcher = WideMatcher()
    loaded = LoadedModels.of(WideExtractor(), {"wide": matcher}, views=["wide"])
    settings = store.settings(batch=8)
    web = Web(settings, loaded)
    first = next(iter(before))
    regions = web.get(f"/images/{first}/regions").json()  # as that release showed them, its detector being gone
    assert (regions["extractor"], regions["regions"][0]["label"]) == (former, "picture")
    assert {one["label"] for one in regions["regions"][1:]} <= {*COCO_CLASSES, "region"}
    assert "0 of 20 pictures" in problem(web.text("a red ball"), 503, "not-ready")["detail"]
    with open_worker(settings, loaded.extractor, [matcher]) as (worker, _):
        worker.run_once()
        assert len(checked(web.text("red", k=20), 200, TextAnswer)["results"]) in {7, 8}  # one of them may be deleted
        assert web.get("/models").json()["migration"]["former"] == [former]
    with open_worker(settings, loaded.extractor, [matcher]) as (worker, _):  # it goes on where it was
        assert store.catalog.region_stores.num_records(loaded.extractor.digest) == 8
        while worker.run_once():
            pass
    assert {image.image_id: image.slot for image in store.catalog.list_images(None, 100)} == before
    answer = checked(web.text("red", k=20, explain=True), 200, TextAnswer)
    assert {hit["image_id"] for hit in answer["results"]} == set(before)
    assert answer["results"][0]["explanation"]["regions"][0]["label"] == "picture"
    for image in web.get("/images", limit=100).json()["images"]:
        assert web.get(image["thumbnail_url"]).status_code == 200
        assert web.get(f"{image['url']}/regions").json()["extractor"] == loaded.extractor.digest
    assert web.get("/failures").json()["failures"] == release_answers["failures"]["failures"]
    assert [path.name for path in (data_directory / "regions").iterdir()] == [loaded.extractor.digest]
    assert [path.name for path in (data_directory / "views").iterdir()] == [matcher.digest]
    store.catalog.close()
    web.close()
