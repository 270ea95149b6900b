"""Models that are loaded when a query first names them: once, while others are answered, and said in the answer."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from models.matching.checkpoint import BadCheckpoint
from models.matching.lazy_matcher import LazyMatcher, MatcherHeader
from models.matching.matcher import Matcher
from service.api.dependencies import ClientDisconnected, load_at_first_use
from service.api.first_use import ModelLoader
from service.api.schemas.resources import ModelsAnswer
from service.api.schemas.results import ImageAnswer, TextAnswer
from service.model_loading import LoadedModels
from service.search.model_views import ModelView
from service.search.requests import TextSearchRequest
from service.settings import Settings
from tests.support.fakes import FakeExtractor, FakeMatcher, at_once
from tests.support.pictures import encoded
from tests.support.web_app import Web, checked, problem
from tests.support.worker_store import Store, noise

MANY = 20  # more than the threads of searches, and than those of lookups


class Weights:
    """The weights of the model `other`, read slowly or not at all."""

    def __init__(self) -> None:
        self.matcher = FakeMatcher("other", "other-matcher")
        self.began, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()
        self.readings = 0
        self.fault: Exception | None = None

    def read(self) -> Matcher:
        self.readings += 1
        self.began.set()
        self.may_end.wait()
        if self.fault is not None:
            raise self.fault
        return self.matcher

    def lazy(self) -> LazyMatcher:
        return LazyMatcher(MatcherHeader.of(self.matcher), self.read)


@pytest.fixture
def weights() -> Weights:
    return Weights()


@pytest.fixture
def web(tmp_path: Path, weights: Weights) -> Iterator[Web]:
    store = Store(tmp_path)
    for seed in range(4):
        store.accept(encoded(noise(seed), "PNG"), captions=["red green"])
    store.drain(matchers=[FakeMatcher(), weights.matcher])
    store.catalog.close()
    loaded = LoadedModels(
        extractor=FakeExtractor(),
        models={"fake": LazyMatcher.of(FakeMatcher()), "other": weights.lazy()},
        views=["fake", "other"],
    )
    web = Web(Settings(data_dir=tmp_path, decode_workers=1), loaded)
    web.services.storage.catalog.processes.heartbeat("worker", web.services.clock())
    yield web
    weights.may_end.set()
    web.close()


def loaded_models(web: Web) -> dict[str, bool]:
    models = checked(web.get("/models"), 200, ModelsAnswer)["models"]
    return {one["name"]: one["loaded"] for one in models}


def test_the_first_query_loads_its_model_and_says_so(web: Web, weights: Weights) -> None:
    assert web.get("/readyz").status_code == 200
    assert "load" not in checked(web.text("red", model="fake"), 200, TextAnswer)["timings_ms"]
    assert loaded_models(web) == {"fake": True, "other": False}
    assert weights.readings == 0
    first = checked(web.text("red", model="other"), 200, TextAnswer)
    assert (first["model"], first["model_digest"], len(first["results"])) == ("other", "other-matcher", 4)
    assert 0 < first["timings_ms"]["load"] <= first["timings_ms"]["total"]
    assert loaded_models(web) == {"fake": True, "other": True}
    again = checked(web.text("red", model="other"), 200, TextAnswer)
    assert again["cached"]
    assert "load" not in again["timings_ms"]  # which is of the query that waited alone
    assert "load" not in checked(web.text("blue", model="other"), 200, TextAnswer)["timings_ms"]
    assert weights.readings == 1
    assert b'stage="load"' in web.get("/metrics").content


@pytest.mark.parametrize("target", ["captions", "images"])
def test_a_picture_as_the_question_loads_its_model_too(target: str, web: Web, weights: Weights) -> None:
    image_id = web.text("red").json()["results"][0]["image_id"]
    form = {"image_id": (None, image_id), "model": (None, "other"), "target": (None, target)}
    answer = checked(web.request("POST", "/search/image", files=form), 200, ImageAnswer)
    assert answer["timings_ms"]["load"] > 0
    assert web.get(f"/images/{image_id}/explain.png", query="red", model="other").status_code == 200
    assert weights.readings == 1


def test_an_explanation_as_a_picture_loads_its_model(web: Web, weights: Weights) -> None:
    image_id = web.text("red").json()["results"][0]["image_id"]
    assert web.get(f"/images/{image_id}/explain.png", query="red", model="other").status_code == 200
    assert weights.readings == 1


def test_what_asks_the_text_alone_or_is_refused_loads_nothing(web: Web, weights: Weights) -> None:
    found = checked(web.text("red green", model="other", match="text"), 200, TextAnswer)
    assert len(found["results"]) == 4
    problem(web.text("red", model="other", min_probability=0.5), 422, "invalid-request")
    assert weights.readings == 0


def test_all_who_ask_at_once_wait_for_one_loading_and_nobody_else_does(web: Web, weights: Weights) -> None:
    weights.may_end.clear()

    async def ask(client: httpx.AsyncClient) -> tuple[list[httpx.Response], list[httpx.Response]]:
        def search(query: str, model: str) -> Any:
            return client.post("/search/text", json={"query": query, "model": model, "match": "pictures"})

        waiting = [asyncio.ensure_future(search(f"red {'blue ' * n}", "other")) for n in range(MANY)]
        await asyncio.to_thread(weights.began.wait)
        others = await asyncio.gather(*(search(f"green {'red ' * n}", "fake") for n in range(MANY)))
        others.append(await client.get("/readyz"))
        assert not any(one.done() for one in waiting)
        weights.may_end.set()
        return await asyncio.gather(*waiting), others

    waited, others = web.together(ask)
    assert {one.status_code for one in (*waited, *others)} == {200}
    assert all(one.json()["timings_ms"]["load"] > 0 for one in waited)
    assert weights.readings == 1


@pytest.mark.parametrize("fault", [BadCheckpoint("model.safetensors is damaged"), OSError("gone"), RuntimeError("odd")])
def test_weights_that_cannot_be_read_are_a_problem_of_their_model_alone(
    fault: Exception, web: Web, weights: Weights, caplog: pytest.LogCaptureFixture
) -> None:
    weights.fault = fault
    for _ in range(2):
        refused = problem(web.text("red", model="other"), 503, "model-not-loaded")
        assert refused["model"] == "other"
        assert "The weights of other cannot be read" in refused["detail"]
        assert str(fault) not in refused["detail"]  # paths of the server are none of the caller's business
    assert f"the model other cannot be loaded: {fault}" in caplog.text
    assert ("Traceback" in caplog.text) is isinstance(fault, RuntimeError)
    assert loaded_models(web) == {"fake": True, "other": False}
    assert web.text("red", model="fake").status_code == web.get("/readyz").status_code == 200
    weights.fault = None
    assert checked(web.text("red", model="other"), 200, TextAnswer)["timings_ms"]["load"] > 0


def test_many_who_wait_for_weights_that_cannot_be_read_are_all_told(web: Web, weights: Weights) -> None:
    weights.fault = BadCheckpoint("damaged")
    weights.may_end.clear()

    async def ask(client: httpx.AsyncClient) -> list[httpx.Response]:
        body = {"query": "red", "model": "other"}
        waiting = [asyncio.ensure_future(client.post("/search/text", json=body)) for _ in range(MANY)]
        await asyncio.to_thread(weights.began.wait)
        weights.may_end.set()
        return await asyncio.gather(*waiting)

    for one in web.together(ask):
        problem(one, 503, "model-not-loaded")


def test_a_model_is_measured_before_its_first_query_is_admitted_by_its_own_cost(web: Web, weights: Weights) -> None:
    asked: list[str] = []
    measure, admit = web.services.collection.search.costs.measure, web.services.capacity.accelerator.admit

    def noted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            asked.append(f"{name}{arguments or ''}")
            return work(*arguments)

        return run

    web.services.collection.search.costs.measure = noted("measured", measure)  # type: ignore[method-assign]
    web.services.capacity.accelerator.admit = noted("admitted", admit)  # type: ignore[method-assign]
    assert web.text("red", model="other").status_code == 200
    assert asked[0].startswith("admitted(")  # as one that has not begun; the place is given up while the model loads
    assert asked[1:3] == ["admitted(0,)", "measured"]
    assert asked[3].startswith("admitted(")


def test_who_stops_to_wait_takes_nobody_along(tmp_path: Path, weights: Weights) -> None:
    weights.may_end.clear()
    model, loader = ModelView("other", weights.lazy(), tmp_path, maintained=True), ModelLoader()

    async def wait() -> None:
        first, second = (asyncio.ensure_future(loader.load(model, at_once)) for _ in range(2))
        await asyncio.to_thread(weights.began.wait)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        weights.may_end.set()
        await second

    asyncio.run(wait())
    loader.close()
    assert (model.loaded, weights.readings) == (True, 1)


def test_the_end_waits_for_what_is_being_loaded(tmp_path: Path, weights: Weights) -> None:
    weights.may_end.clear()
    model, loader = ModelView("other", weights.lazy(), tmp_path, maintained=True), ModelLoader()

    async def end() -> None:
        waiting = asyncio.ensure_future(loader.load(model, at_once))
        await asyncio.to_thread(weights.began.wait)
        closing = asyncio.ensure_future(asyncio.to_thread(loader.close))
        await asyncio.wait([closing], timeout=0.2)
        assert not closing.done()
        weights.may_end.set()
        await closing
        assert model.loaded
        await waiting

    asyncio.run(end())


@pytest.mark.parametrize("much_is_admitted", [False, True])
def test_a_model_is_measured_though_nobody_waits_for_it_any_more(
    web: Web, weights: Weights, much_is_admitted: bool
) -> None:
    services, measured = web.services, threading.Event()
    measure = services.collection.search.costs.measure
    services.collection.search.costs.measure = lambda: (measure(), measured.set())[0]  # type: ignore[method-assign, func-returns-value]
    weights.may_end.clear()
    query = services.collection.search.begin(TextSearchRequest(query="red", model="other", match="pictures"))

    async def hang_up() -> dict[str, str]:
        await asyncio.to_thread(weights.began.wait)
        return {"type": "http.disconnect"}

    async def ask(client: httpx.AsyncClient) -> None:
        with pytest.raises(ClientDisconnected):
            await load_at_first_use(Request({"type": "http"}, hang_up), services, query)

    web.together(ask)
    with services.capacity.accelerator.admit(2 * services.settings.queue_cost) if much_is_admitted else nullcontext():
        weights.may_end.set()
        assert measured.wait(60)
