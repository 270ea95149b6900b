"""A data directory of a former detector as it is served while another one finds all regions anew."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from index.views.slab import HEADER
from service.api.schemas.resources import ModelsAnswer, ReadyAnswer, RegionsAnswer
from service.api.schemas.results import ImageAnswer, TextAnswer
from service.errors import Misconfigured
from service.model_loading import LoadedModels
from service.search.requests import TextSearchRequest
from service.settings import Settings
from service.worker.worker import Worker
from tests.support.fakes import FakeExtractor, FakeMatcher, WideExtractor, WideMatcher
from tests.support.feature_layouts import take_in, theirs
from tests.support.kill_points import decode_here
from tests.support.library import NOW, two_coloured
from tests.support.small_matchers import small_weights
from tests.support.web_app import Web, checked, png, problem
from tests.support.worker_store import Store

PAIRS = [("red", "green"), ("blue", "blue"), ("yellow", "white"), ("black", "cyan"), ("magenta", "magenta")]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Five pictures with the former detector's regions."""
    decode_here(monkeypatch)
    made = Store(tmp_path / "data")
    for left, right in PAIRS:
        made.accept(png(two_coloured(left, right)), captions=[f"{left} {right}"])
    made.drain()
    made.catalog.processes.heartbeat("worker", NOW)
    yield made
    made.catalog.close()


@pytest.fixture
def worker(store: Store) -> Iterator[Worker]:
    """A worker of the new detector, which has not done anything yet."""
    with store.worker(WideExtractor(), [WideMatcher()], batch=2) as (worker, _):
        yield worker


def work(worker: Worker, store: Store) -> bool:
    """A round of the worker, heard of at the time that the web side's clock stands at; whether it did anything."""
    worked = worker.run_once()
    store.catalog.processes.heartbeat("worker", NOW)
    return worked


def served(store: Store, *matchers: FakeMatcher) -> Web:
    loaded = LoadedModels.of(WideExtractor(), {one.name: one for one in matchers}, views=[one.name for one in matchers])
    return Web(Settings(data_dir=store.folder, decode_workers=1), loaded)


@pytest.fixture
def web(store: Store) -> Iterator[Web]:
    """A server with a model of the new detector alone, as a new release has it."""
    made = served(store, WideMatcher())
    yield made
    made.close()


@pytest.fixture
def both(store: Store) -> Iterator[Web]:
    """A server that was also told where the former detector's model lies."""
    made = served(store, WideMatcher(), FakeMatcher("former"))
    yield made
    made.close()


def ids(store: Store) -> list[str]:
    return [image.image_id for image in store.catalog.list_images(None, 100)]


def test_nothing_can_be_searched_before_the_first_pictures_are_found_anew(web: Web, store: Store) -> None:
    answer = web.text("red green")
    said = problem(answer, 503, "not-ready")
    assert "finding regions anew: 0 of 5 pictures" in said["detail"]
    assert said["migration"] == {"done": 0, "total": 5, "seconds_left": None}
    assert int(answer.headers["retry-after"]) >= 1
    ready = problem(web.get("/readyz"), 503, "not-ready")
    assert ready["checks"]["regions"] == "finding regions anew: 0 of 5 pictures"
    models = checked(web.get("/models"), 200, ModelsAnswer)
    assert models["migration"]["former"] == ["fake-extractor"]
    assert models["models"][0]["missing_pictures"] == 5
    first = ids(store)[0]
    assert web.get(f"/images/{first}").status_code == 200
    assert web.get(f"/images/{first}/thumbnail").status_code in {200, 404}  # decode_here makes none
    found = checked(web.get(f"/images/{first}/regions"), 200, RegionsAnswer)
    assert found["extractor"] == "fake-extractor"
    assert [one["label"] for one in found["regions"]] == ["picture", "left", "right", "centre"]
    form = {"image_id": (None, first), "target": (None, "images")}
    problem(web.request("POST", "/search/image", files=form), 503, "not-ready")


def test_pictures_are_found_as_soon_as_their_batch_is_done(web: Web, worker: Worker, store: Store) -> None:
    first, *_, last = ids(store)
    work(worker, store)
    answer = checked(web.text("red green", k=5, explain=True), 200, TextAnswer)
    assert answer["results"][0]["image_id"] == first
    assert len(answer["results"]) == 2
    assert answer["results"][0]["explanation"]["regions"][1]["label"] == "west"
    models = checked(web.get("/models"), 200, ModelsAnswer)
    assert (models["migration"]["done"], models["migration"]["total"]) == (2, 5)
    assert (models["models"][0]["state"], models["models"][0]["missing_pictures"]) == ("building", 3)
    checks = checked(web.get("/readyz"), 200, ReadyAnswer)["checks"]
    assert checks["regions"].startswith("ok: finding regions anew: 2 of 5 pictures")
    shown = [checked(web.get(f"/images/{one}/regions"), 200, RegionsAnswer)["extractor"] for one in (first, last)]
    assert shown == ["wide-extractor", "fake-extractor"]
    form = {"image_id": (None, last)}
    waits = problem(web.request("POST", "/search/image", files=form), 503, "not-ready")
    assert f"Picture {last} waits for its regions" in waits["detail"]
    assert "regard_pictures_to_migrate 3.0" in web.get("/metrics").text


def test_what_is_taken_in_meanwhile_is_shown_at_once_and_searched_in_its_turn(
    web: Web, worker: Worker, store: Store
) -> None:
    work(worker, store)
    sent = web.request("POST", "/ingest", files={"images": ("a.png", png(two_coloured("white", "red")))}).json()
    new = sent["accepted"][0]["image_id"]
    work(worker, store)
    assert web.get("/images", limit=100).json()["images"][-1]["state"] == "ready"
    waits = problem(web.get(f"/images/{new}/regions"), 404, "not-found")
    assert "waiting for its regions" in waits["detail"]
    assert web.get(sent["status_url"]).json()["state"] == "running"
    while work(worker, store):
        pass
    assert web.get(sent["status_url"]).json()["state"] == "done"
    assert checked(web.text("white red"), 200, TextAnswer)["results"][0]["image_id"] == new
    assert checked(web.get("/models"), 200, ModelsAnswer)["migration"] is None
    assert checked(web.get("/readyz"), 200, ReadyAnswer)["checks"]["regions"] == "ok"


def test_the_former_model_answers_until_all_is_switched_at_once(both: Web, worker: Worker, store: Store) -> None:
    before = checked(both.text("red green", k=5, explain=True), 200, TextAnswer)
    assert (before["model"], len(before["results"])) == ("former", 5)
    assert before["results"][0]["explanation"]["regions"][1]["label"] == "left"
    seen = []
    checked(both.get("/readyz"), 200, ReadyAnswer)
    new = both.request("POST", "/ingest", files={"images": ("a.png", png(two_coloured("white", "red")))}).json()
    while worker.run_once():
        answer = checked(both.text("red green", k=10), 200, TextAnswer)
        seen.append((answer["model"], len(answer["results"])))
    assert sorted(set(seen), key=seen.index) == [("former", 5), ("wide", 6)]
    assert both.get(new["status_url"]).json()["state"] == "done"
    after = checked(both.text("red green", k=10, explain=True), 200, TextAnswer)
    assert after["results"][0]["image_id"] == before["results"][0]["image_id"]
    assert after["results"][0]["explanation"]["regions"][1]["label"] == "west"
    assert problem(both.text("red", model="former"), 404, "unknown-model")["known"] == ["wide"]
    assert [model["name"] for model in checked(both.get("/models"), 200, ModelsAnswer)["models"]] == ["wide"]


@pytest.mark.parametrize("content", [b"{broken", None])
def test_damaged_regions_of_the_former_detector_cost_its_explanations_alone(
    worker: Worker, store: Store, caplog: pytest.LogCaptureFixture, content: bytes | None
) -> None:
    work(worker, store)
    header = store.folder / "regions" / HEADER
    if content is None:
        header.unlink()
    else:
        header.write_bytes(content)
    web = served(store, WideMatcher(), FakeMatcher("former"))
    try:
        found = [
            len(checked(web.text("red green", model=name), 200, TextAnswer)["results"]) for name in ("former", "wide")
        ]
        assert found == [5, 2]
        told = problem(web.text("red green", model="former", explain=True), 503, "not-ready")
        assert "ask without `explain`" in told["detail"]
        assert checked(web.text("red green", model="wide", explain=True), 200, TextAnswer)["results"]
    finally:
        web.close()
    assert caplog.text.count("the regions of the extractor fake-extractor cannot be read") == 1


def test_each_model_searches_the_regions_of_its_own_detector(both: Web, worker: Worker, store: Store) -> None:
    worker.run_once()
    models = {one["name"]: one for one in checked(both.get("/models"), 200, ModelsAnswer)["models"]}
    assert [(name, one["default"], one["pictures"]) for name, one in models.items()] == [
        ("wide", False, 2),
        ("former", True, 5),
    ]
    assert len(checked(both.text("red green", model="wide"), 200, TextAnswer)["results"]) == 2
    form = {"image_id": (None, ids(store)[4]), "target": (None, "images")}
    assert len(checked(both.request("POST", "/search/image", files=form), 200, ImageAnswer)["results"]) == 4
    picture = {"image": ("a.png", png(two_coloured("red", "green")))}
    said = problem(both.request("POST", "/search/image", files=picture), 503, "not-ready")
    assert "former reads what the former detector found" in said["detail"]
    named = both.request("POST", "/search/image", files={**picture, "model": (None, "wide")})
    assert checked(named, 200, ImageAnswer)["model"] == "wide"


def test_a_search_that_began_before_the_switch_ends_with_what_it_began_with(both: Web, worker: Worker) -> None:
    query = both.services.collection.search.begin(TextSearchRequest(query="red green", explain=True))
    while worker.run_once():
        pass
    both.services.models.refresh()
    found = both.services.collection.search.text(query)
    assert (found.origin.model, len(found.results)) == ("former", 5)
    assert found.results[0].explanation is not None
    assert found.results[0].explanation.regions[1].label == "left"


def test_pictures_without_regions_are_no_candidates(web: Web, worker: Worker, store: Store) -> None:
    lost = ids(store)[1]
    store.originals.path(lost, "png").unlink()
    while worker.run_once():
        pass
    answer = checked(web.text("blue", k=10), 200, TextAnswer)
    assert lost not in {hit["image_id"] for hit in answer["results"]}
    assert len(answer["results"]) == 4
    assert [one["image_id"] for one in web.get("/failures").json()["failures"]] == [lost]
    form = {"image_id": (None, lost)}
    said = problem(web.request("POST", "/search/image", files=form), 404, "not-found")
    assert "could not be read" in said["detail"]


def loaded_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> LoadedModels:
    """The models that settings naming these folders load, with the new detector."""
    small_weights(tmp_path / "old", "scan-t2i-avg", 1)
    small_weights(tmp_path / "new", "scan-t2i-avg", 2, feature_dim=18, extractor="wide-extractor")
    small_weights(tmp_path / "strange", "scan-t2i-avg", 3, extractor="nobody's")
    monkeypatch.setattr("service.model_loading.detector_of", lambda folder, device: WideExtractor())
    folders = tuple(str(tmp_path / name) for name in names)
    return LoadedModels.from_settings(Settings(data_dir=tmp_path / "data", models=folders))


def test_settings_may_name_models_of_the_former_detector(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = loaded_with(tmp_path, monkeypatch, "new", "old")
    assert list(loaded.models) == ["new", "old"]
    assert [one.extractor_digest for one in loaded.in_views()] == ["wide-extractor"]
    with pytest.raises(Misconfigured, match="strange was trained on features of detector nobody's"):
        loaded_with(tmp_path, monkeypatch, "new", "strange")
    with pytest.raises(Misconfigured, match="old was trained on features of detector fake-extractor"):
        loaded_with(tmp_path, monkeypatch, "old")
    small_weights(tmp_path / "few", "scan-t2i-avg", 3, extractor="wide-extractor-first-2")
    with pytest.raises(Misconfigured, match="few was trained on the first regions of each picture alone"):
        loaded_with(tmp_path, monkeypatch, "few")
    store.drain(WideExtractor(), [WideMatcher()])
    assert list(loaded_with(tmp_path, monkeypatch, "new", "old").models) == ["new"]
    assert "the model old is left out" in caplog.text


def test_features_of_a_former_detector_alone_open_as_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = theirs(tmp_path)
    ours = type(collection)(
        extractor="fake-extractor",
        num_regions=4,
        feature_dim=16,
        labels=FakeExtractor.labels,
        pictures=collection.pictures,
    )
    take_in(ours, tmp_path / "data")
    assert not (tmp_path / "data" / "extractor").exists()
    loaded = loaded_with(tmp_path, monkeypatch, "old")
    assert (loaded.extractor.digest, loaded.extractor.accepts_pictures) == ("fake-extractor", False)
    with pytest.raises(Misconfigured, match=r"holds features of fake-extractor: set REGARD_MODELS"):
        loaded_with(tmp_path, monkeypatch, "new")
