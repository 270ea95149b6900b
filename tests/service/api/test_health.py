"""Health, metrics, models, and what every route has in common."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest
import torch

from models.single_threads import usual_threads
from service.api.admission.request_threads import SEARCH_THREADS
from service.api.routes import health
from service.api.schemas.resources import ImagesAnswer, LiveAnswer, ModelListed, ModelsAnswer, ReadyAnswer
from service.api.schemas.results import TextAnswer
from service.search import model_views
from service.search.wording import query_notes
from tests.support.busy_accelerator import busy
from tests.support.catalogs import picture
from tests.support.fakes import FakeMatcher
from tests.support.library import NOW, Library, two_coloured
from tests.support.web_app import Api, checked, problem, served

HOLDER = """
import pathlib, sys, time
from index.lock import WriterLock
lock = WriterLock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with served(Library(tmp_path, others=[FakeMatcher("other", "other-digest")])) as api:
        yield api


def test_an_empty_store_with_a_worker_is_ready(api: Api) -> None:
    checked(api.get("/livez"), 200, LiveAnswer)
    not_yet = problem(api.get("/readyz"), 503, "not-ready")
    assert "no worker was ever heard from" in not_yet["checks"]["worker"]
    api.library.catalog.processes.heartbeat("worker", NOW - 1)
    assert checked(api.get("/readyz"), 200, ReadyAnswer)["checks"]["model"] == "ok"


def test_a_silent_worker_a_dead_thread_and_a_broken_model_are_told(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.library.catalog.processes.heartbeat("worker", NOW - api.settings.worker_silent_s - 1)
    answer = api.get("/readyz")
    assert "no worker was heard from" in problem(answer, 503, "not-ready")["checks"]["worker"]
    assert int(answer.headers["retry-after"]) >= 1
    api.library.catalog.processes.heartbeat("worker", NOW)
    monkeypatch.setattr(api.library.matcher, "score", lambda *_: 1 / 0)
    assert "ZeroDivisionError" in problem(api.get("/readyz"), 503, "not-ready")["checks"]["model"]
    monkeypatch.undo()
    with api.services.capacity.accelerator.admit(1) as light:
        monkeypatch.setattr(api.services.capacity.accelerator, "_light_cost", 1)
        monkeypatch.setattr(health, "STUCK_S", 0.0)
        stuck = light.run(lambda: problem(api.get("/readyz"), 503, "not-ready"))
        assert "has been running for" in stuck["checks"]["model"]
    monkeypatch.undo()
    with busy(api.services.capacity.accelerator):
        monkeypatch.setattr(health, "STUCK_S", 0.0)
        monkeypatch.setattr(health, "FORWARD_PASS_TIMEOUT_S", 0.05)
        assert "has been running for" in problem(api.get("/readyz"), 503, "not-ready")["checks"]["model"]
    monkeypatch.undo()
    api.services.capacity.accelerator.close()
    assert "has ended" in problem(api.get("/readyz"), 503, "not-ready")["checks"]["model"]


def test_a_worker_that_died_is_missed_within_seconds(api: Api) -> None:
    """One that is silent for a while since it is at a long batch is not: it holds the writer's lock."""
    api.library.catalog.processes.heartbeat("worker", NOW - 12)
    command = [sys.executable, "-c", HOLDER, str(api.library.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"held\n"
        for _ in range(20):
            checked(api.get("/readyz"), 200, ReadyAnswer)
        worker.kill()
        worker.wait()
    refused = problem(api.get("/readyz"), 503, "not-ready")
    assert "the worker has ended" in refused["checks"]["worker"]
    assert "12 s ago" in refused["detail"]
    api.library.catalog.processes.heartbeat("worker", NOW - 1)  # where the lock of another container cannot be seen
    checked(api.get("/readyz"), 200, ReadyAnswer)


def test_damage_that_a_request_met_is_told_until_the_file_is_replaced(api: Api) -> None:
    path, catalog = api.library.folder / "catalog.sqlite", api.library.catalog
    with closing(sqlite3.connect(path)) as database:
        size = database.execute("PRAGMA page_size").fetchone()[0]
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'images'").fetchone()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    sound = path.read_bytes()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    catalog.processes.heartbeat("worker", NOW)  # a change, after which connections read the file anew
    checked(api.get("/readyz"), 200, ReadyAnswer)
    assert "damaged" in problem(api.get("/images"), 503, "not-ready")["detail"]
    for _ in range(2):
        assert "damaged" in problem(api.get("/readyz"), 503, "not-ready")["checks"]["catalog"]
    backup = path.with_name("backup")
    backup.write_bytes(sound)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    backup.rename(path)
    checked(api.get("/images"), 200, ImagesAnswer)
    catalog.processes.heartbeat("worker", NOW)
    checked(api.get("/readyz"), 200, ReadyAnswer)


def test_a_catalog_that_another_process_keeps_is_told(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = api.library.catalog
    catalog.processes.heartbeat("worker", NOW - 12)
    with closing(sqlite3.connect(api.library.folder / "catalog.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = problem(api.get("/readyz"), 503, "not-ready")["checks"]
        assert "another process keeps the catalog" in refused["catalog"]

        def write_on(_: float) -> None:
            for sql in ("UPDATE counters SET value = value + 1", "COMMIT", "BEGIN IMMEDIATE"):
                other.execute(sql)

        with monkeypatch.context() as waiting:
            waiting.setattr("index.catalog.database.connection.time.sleep", write_on)
            assert not catalog.processes.are_kept_from_writing(), "who writes much keeps nobody from it for long"
        other.execute("ROLLBACK")
    checked(api.get("/readyz"), 200, ReadyAnswer)


def test_a_sign_of_life_from_the_future_is_none(api: Api) -> None:
    api.library.catalog.processes.heartbeat("worker", NOW + 3600)
    refused = problem(api.get("/readyz"), 503, "not-ready")
    assert "3600 s ahead: the clock was set back" in refused["checks"]["worker"]
    api.library.catalog.processes.heartbeat("worker", NOW)
    checked(api.get("/readyz"), 200, ReadyAnswer)


def test_models_are_listed_with_what_they_can_find(api: Api) -> None:
    api.library.add("first", two_coloured("red", "red"), captions=["red", "a wall"])
    api.library.add("second", two_coloured("blue", "blue"), captions=["blue"], view=False)
    answer = checked(api.get("/models"), 200, ModelsAnswer)
    assert answer["collection"] == api.library.catalog.collection().id
    fake, other = answer["models"]
    assert fake == {
        "name": "fake",
        "digest": "fake-matcher",
        "default": True,
        "loaded": True,
        "calibrated": False,
        "state": "building",
        "pictures": 1,
        "captions": 2,
        "missing_pictures": 1,
        "missing_captions": 1,
    }
    assert (other["state"], other["missing_pictures"]) == ("not built", 2)


def test_a_view_that_settings_leave_out_is_built_on_request(api: Api) -> None:
    api.library.add("first", two_coloured("red", "red"))
    assert "POST /models/other/build" in problem(api.text("red", model="other"), 409, "view-not-built")["detail"]
    answer = api.request("POST", "/models/other/build")
    assert checked(answer, 202, ModelListed)["state"] == "building"
    assert answer.headers["location"] == "/models"
    assert api.library.catalog.processes.requested_views() == {"other-digest"}
    assert api.times_woken == 1
    assert "is being built" in problem(api.text("red", model="other"), 409, "view-not-built")["detail"]
    assert checked(api.request("POST", "/models/fake/build"), 202, ModelListed)["state"] == "ready"
    assert api.library.catalog.processes.requested_views() == {"other-digest"}
    problem(api.request("POST", "/models/scam/build"), 404, "unknown-model")


def test_a_library_of_which_nothing_can_be_found_yet_says_so(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_views, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(query_notes, "WITHIN_A_MOMENT", 2)
    api.library.catalog.processes.heartbeat("worker", NOW)
    api.library.catch_up()  # an empty view, as a worker begins it
    for colour in ("red", "green", "blue"):
        assert checked(api.text("red"), 200, TextAnswer)["results"] == []
        api.library.add(colour, two_coloured(colour, colour), view=False)
    assert "is being built, 0 of 3 pictures" in problem(api.text("red"), 409, "view-not-built")["detail"]
    assert "is being built: 0 of 3" in problem(api.get("/readyz"), 503, "not-ready")["checks"]["view"]
    api.library.catch_up()
    for number in range(3):
        api.library.add(f"more {number}", two_coloured("cyan", "cyan"), view=False)
    answer = checked(api.text("red"), 200, TextAnswer)
    assert answer["note"] == "3 pictures that are stored cannot be found yet."
    assert len(answer["results"]) == 3
    checked(api.get("/readyz"), 200, ReadyAnswer)


def test_pictures_that_wait_for_their_regions_are_told_beside_what_is_found(api: Api) -> None:
    api.library.catalog.processes.heartbeat("worker", NOW)
    api.library.add("red", two_coloured("red", "red"))
    assert checked(api.text("red"), 200, TextAnswer).get("note") is None
    api.library.catalog.take_in([picture(f"{number:032x}") for number in range(11)], NOW)
    assert checked(api.text("red"), 200, TextAnswer)["note"] == "11 pictures that are stored cannot be found yet."


def test_metrics_speak_of_requests_stages_and_store(api: Api) -> None:
    api.library.add("first", two_coloured("red", "red"))
    api.text("red")
    api.text("red")
    api.get("/nowhere/at/all")
    page = api.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    lines = page.text.splitlines()
    assert 'regard_requests_total{route="/search/text",status="200"} 2.0' in lines
    assert 'regard_requests_total{route="none",status="404"} 1.0' in lines
    assert 'regard_cache_total{outcome="hit"} 1.0' in lines
    assert "regard_pictures_ready 1.0" in lines
    assert 'regard_search_stage_seconds_count{stage="rerank"} 1.0' in lines


def test_the_silence_of_a_worker_begins_once_one_was_heard(api: Api) -> None:
    assert "regard_worker_silence_seconds" not in api.get("/metrics").text
    api.library.catalog.processes.heartbeat("worker", NOW - 3)
    assert "regard_worker_silence_seconds 3.0" in api.get("/metrics").text.splitlines()


@pytest.mark.parametrize("path", ["/nowhere", "/images/x/y/z", "/search"])
def test_a_route_that_does_not_exist_is_a_problem_document(api: Api, path: str) -> None:
    assert path in problem(api.get(path), 404, "not-found")["detail"]


def test_another_method_is_a_problem_document_that_names_the_right_one(api: Api) -> None:
    answer = api.get("/search/text")
    assert "POST" in problem(answer, 405, "method-not-allowed")["detail"]
    assert answer.headers["allow"] == "POST"


def test_a_request_keeps_the_name_it_came_with(api: Api) -> None:
    named = api.request("GET", "/livez", headers={"x-request-id": "mine-1"})
    assert named.headers["x-request-id"] == "mine-1"
    odd = api.request("GET", "/livez", headers={"x-request-id": 'mine"; drop'})
    assert len(odd.headers["x-request-id"]) == 32
    assert odd.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_model_whose_scores_are_no_numbers_is_told(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, score: float
) -> None:
    api.library.catalog.processes.heartbeat("worker", NOW)
    checked(api.get("/readyz"), 200, ReadyAnswer)
    monkeypatch.setattr(api.library.matcher, "score", lambda *_: torch.full((1, 1), score))
    refused = problem(api.get("/readyz"), 503, "not-ready")
    assert refused["checks"]["model"] == "the forward pass failed: FloatingPointError"
    assert f"fake scores {score}" in caplog.text


def test_a_full_queue_is_no_reason_to_be_taken_out_of_service(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.library.catalog.processes.heartbeat("worker", NOW)
    monkeypatch.setattr(health, "FORWARD_PASS_TIMEOUT_S", 0.05)
    with busy(api.services.capacity.accelerator):
        api.services.capacity.accelerator.enqueue(api.settings.queue_cost, lambda: None)
        problem(api.text("red"), 503, "overloaded")
        assert checked(api.get("/readyz"), 200, ReadyAnswer)["checks"]["model"] == "ok: busy"
    monkeypatch.undo()
    assert checked(api.get("/readyz"), 200, ReadyAnswer)["checks"]["model"] == "ok"


def test_readiness_does_not_wait_for_uploads_or_searches_and_refusals_only_for_light_ones(api: Api) -> None:
    api.library.catalog.processes.heartbeat("worker", NOW)
    go = threading.Event()

    async def with_every_thread_taken(client: httpx.AsyncClient) -> list[httpx.Response]:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(uploads)
        loop.run_in_executor(None, go.wait)
        for _ in range(SEARCH_THREADS):
            api.services.capacity.threads.search.submit(go.wait)
        try:
            refused = await client.post("/search/text", json={"query": "red", "model": "x"})
            for _ in range(usual_threads()):
                api.services.capacity.threads.light.submit(go.wait)
            return [await client.get("/readyz"), refused]
        finally:
            go.set()

    with ThreadPoolExecutor(1) as uploads:
        ready, refused = api.together(with_every_thread_taken)
    checked(ready, 200, ReadyAnswer)
    problem(refused, 404, "unknown-model")
