"""Pictures in over HTTP: the receipt, the job, what is turned away, and limits."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.api.schemas.resources import FailuresAnswer, IngestAnswer, JobAnswer, JobsAnswer
from service.api.schemas.results import TextAnswer
from tests.support.library import NAMES, Library, two_coloured
from tests.support.web_app import Api, checked, png, problem, served


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with served(Library(tmp_path), max_file_bytes=100_000, max_body_bytes=400_000) as api:
        yield api


def send(api: Api, files: Sequence[tuple[str, bytes]], manifest: Any = None) -> httpx.Response:
    parts: list[tuple[str, Any]] = [("images", file) for file in files]
    if manifest is not None:
        parts.append(("manifest", (None, json.dumps(manifest))))
    return api.request("POST", "/ingest", files=parts)


RED, BLUE = png(two_coloured("red", "red")), png(two_coloured("blue", "blue"))


def test_pictures_are_taken_in_and_found_once_a_worker_has_seen_them(api: Api) -> None:
    manifest = {
        "red.png": {"captions": ["a red wall"], "tags": {"year": 2024}, "taken_at": "2024-05-06T07:08:09+02:00"}
    }
    answer = send(api, [("red.png", RED), ("blue.png", BLUE)], manifest)
    receipt = checked(answer, 202, IngestAnswer)
    assert answer.headers["location"] == receipt["status_url"] == f"/jobs/{receipt['job_id']}"
    assert [(one["filename"], one["duplicate"]) for one in receipt["accepted"]] == [
        ("red.png", False),
        ("blue.png", False),
    ]
    assert receipt["rejected"] == []
    assert api.times_woken == 1
    before = checked(api.get(receipt["status_url"]), 200, JobAnswer)
    assert (before["state"], before["total"], before["done"]) == ("queued", 2, 0)
    api.library.work(api.services.storage.originals, api.services.pool)
    after = checked(api.get(receipt["status_url"]), 200, JobAnswer)
    assert (after["state"], after["total"], after["done"], after["failed"]) == ("done", 2, 2, 0)
    hit = checked(api.text("red", k=1), 200, TextAnswer)["results"][0]
    assert hit["image_id"] == receipt["accepted"][0]["image_id"]
    assert (hit["captions"], hit["tags"], hit["filename"]) == (["a red wall"], {"year": 2024}, "red.png")
    assert hit["taken_at"] == "2024-05-06T05:08:09Z"


def test_a_job_is_done_only_when_its_pictures_can_be_found(api: Api) -> None:
    receipt = checked(send(api, [("red.png", RED)]), 202, IngestAnswer)
    (queued,) = api.library.catalog.queue.waiting(10)
    api.library.commit(queued.image_id, two_coloured("red", "red"))
    stored = checked(api.get(receipt["status_url"]), 200, JobAnswer)
    assert (stored["state"], stored["done"]) == ("running", 1)
    api.library.catch_up()
    assert checked(api.get(receipt["status_url"]), 200, JobAnswer)["state"] == "done"
    api.library.add("later", two_coloured("blue", "blue"), view=False)
    assert checked(api.get(receipt["status_url"]), 200, JobAnswer)["state"] == "done"  # that one is not its own


def test_a_deleted_picture_that_is_sent_again_is_told_to_be_restored(api: Api) -> None:
    manifest = {"red.png": {"tags": {"wall": "north"}}}
    image_id = checked(send(api, [("red.png", RED)], manifest), 202, IngestAnswer)["accepted"][0]["image_id"]
    api.library.work(api.services.storage.originals, api.services.pool)
    for is_deleted in (True, False):
        if is_deleted:
            assert api.request("DELETE", f"/images/{image_id}").status_code == 204
        (again, copy) = checked(send(api, [("again.png", RED), ("copy.png", RED)]), 202, IngestAnswer)["accepted"]
        assert (again["restored"], again["duplicate"]) == (is_deleted, not is_deleted)
        assert (copy["restored"], copy["duplicate"]) == (False, True)
    picture = api.get(f"/images/{image_id}/info").json()
    assert (picture["filename"], picture["tags"]) == ("red.png", {"wall": "north"})


def test_without_restoring_a_deleted_picture_stays_deleted(api: Api) -> None:
    image_id = checked(send(api, [("red.png", RED)]), 202, IngestAnswer)["accepted"][0]["image_id"]
    assert api.request("DELETE", f"/images/{image_id}").status_code == 204

    def sent(restore: str, *files: tuple[str, bytes]) -> httpx.Response:
        return api.request("POST", "/ingest", data={"restore": restore}, files=[("images", file) for file in files])

    both = checked(sent("false", ("again.png", RED), ("blue.png", BLUE)), 202, IngestAnswer)
    (rejected,) = both["rejected"]
    assert (len(both["accepted"]), rejected["filename"], rejected["deleted"]) == (1, "again.png", True)
    assert problem(sent("false", ("again.png", RED)), 422, "nothing-accepted")["rejected"] == [rejected]
    assert problem(sent("no", ("red.png", RED)), 422, "invalid-request")["errors"][0]["field"] == "restore"
    assert checked(sent("true", ("red.png", RED)), 202, IngestAnswer)["accepted"][0]["restored"]


def test_the_same_picture_again_is_one_picture(api: Api) -> None:
    first = checked(send(api, [("red.png", RED), ("same.png", RED)]), 202, IngestAnswer)
    assert [one["duplicate"] for one in first["accepted"]] == [False, True]
    api.library.work(api.services.storage.originals, api.services.pool)
    second = checked(send(api, [("again.png", RED)]), 202, IngestAnswer)
    assert second["accepted"][0]["duplicate"] is True
    assert second["accepted"][0]["image_id"] == first["accepted"][0]["image_id"]
    assert checked(api.get(second["status_url"]), 200, JobAnswer)["state"] == "done"
    assert len(checked(api.text("red"), 200, TextAnswer)["results"]) == 1


def test_bad_files_are_turned_away_and_the_others_go_on(api: Api) -> None:
    bad = [("empty.jpg", b""), ("text.jpg", b"hello"), ("large.png", RED + bytes(200_000)), ("../../x.zip", b"PK\3\4")]
    receipt = checked(send(api, [*bad, ("red.png", RED)]), 202, IngestAnswer)
    assert [one["filename"] for one in receipt["accepted"]] == ["red.png"]
    assert len(receipt["rejected"]) == 4
    assert len({one["problem"] for one in receipt["rejected"]}) >= 3
    nothing = problem(send(api, bad), 422, "nothing-accepted")
    assert len(nothing["rejected"]) == 4
    assert list(api.services.storage.originals.incoming.iterdir()) == []


def test_what_breaks_later_is_set_aside_and_listed(api: Api) -> None:
    receipt = checked(send(api, [("cut.png", RED[:60])]), 202, IngestAnswer)
    api.library.work(api.services.storage.originals, api.services.pool)
    job = checked(api.get(receipt["status_url"]), 200, JobAnswer)
    assert (job["state"], job["done"], job["failed"]) == ("done", 0, 1)
    failures = checked(api.get("/failures"), 200, FailuresAnswer)["failures"]
    assert failures == job["failures"]
    assert failures[0]["filename"] == "cut.png"
    assert failures[0]["reason"]
    problem(api.get(f"/images/{failures[0]['image_id']}"), 404, "not-found")


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        ({"green.png": {}}, "manifest.green.png"),
        ({"red.png": {"caption": "one"}}, "manifest.red.png.caption"),
        ({"red.png": {"taken_at": "yesterday"}}, "manifest.red.png.taken_at"),
        ([], "manifest"),
    ],
)
def test_a_wrong_manifest_names_its_field(api: Api, manifest: Any, field: str) -> None:
    answer = problem(send(api, [("red.png", RED)], manifest), 422, "invalid-request")
    assert answer["errors"][0]["field"] == field


def test_a_body_that_is_no_form_is_refused(api: Api) -> None:
    cut = b'--x\r\nContent-Disposition: form-data; name="images"; filename="a.png"\r\n\r\nhalf'
    headers = {"content-type": "multipart/form-data; boundary=x"}
    requests: list[tuple[dict[str, Any], str]] = [
        ({"json": {"images": []}}, "must be multipart/form-data"),
        ({}, "must be multipart/form-data"),
        ({"content": b"--x\r\nnonsense", "headers": headers}, "ends in the middle"),
        ({"content": b"nonsense", "headers": headers}, "cannot be read as a form"),
        ({"content": cut, "headers": headers}, "ends in the middle"),
    ]
    for request, wrong in requests:
        (said,) = problem(api.request("POST", "/ingest", **request), 422, "invalid-request")["errors"]
        assert said["field"] == "body"
        assert said["problem"].startswith(wrong)


@pytest.mark.parametrize(("path", "field"), [("/ingest", "images"), ("/search/image", "image")])
def test_a_path_that_was_sent_for_its_file_is_told_how_to_send_it(api: Api, path: str, field: str) -> None:
    answer = api.request("POST", path, files={field: (None, "photos/red.png")})
    said = problem(answer, 422, "invalid-request")["errors"]
    assert said == [{"field": field, "problem": f"is text where files belong; curl sends a file by -F {field}=@PATH"}]


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_over_its_limit_is_cut_while_it_comes(api: Api, announced: bool) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'--x\r\nContent-Disposition: form-data; name="images"; filename="a.png"\r\n\r\n'
        while sent < 100_000_000:
            sent += 100_000
            yield bytes(100_000)

    headers = {"content-type": "multipart/form-data; boundary=x"}
    if announced:
        headers["content-length"] = "100000000"
    problem(api.request("POST", "/ingest", content=endless(), headers=headers), 413, "too-large")
    assert sent <= 2_000_000
    assert list(api.services.storage.originals.incoming.iterdir()) == []


@pytest.mark.parametrize("path", ["/ingest", "/search/image"])
def test_a_body_over_its_limit_is_no_matter_of_the_disk_however_much_is_announced(api: Api, path: str) -> None:
    headers = {"content-type": "multipart/form-data; boundary=x", "content-length": "999999999999999"}
    problem(api.request("POST", path, content=b"--x--", headers=headers), 413, "too-large")


def test_an_unknown_job_is_not_found(api: Api) -> None:
    problem(api.get("/jobs/nope"), 404, "not-found")


@pytest.mark.parametrize("taken_at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_date_at_the_end_of_time_can_be_shown(api: Api, taken_at: str) -> None:
    checked(send(api, [("red.png", RED)], {"red.png": {"taken_at": taken_at}}), 202, IngestAnswer)
    api.library.work(api.services.storage.originals, api.services.pool)
    (hit,) = checked(api.text("red", sort="date"), 200, TextAnswer)["results"]
    assert hit["taken_at"][:4] == taken_at[:4]
    assert api.get("/dates").json() == {"months": [{"month": taken_at[:7], "pictures": 1}], "undated": 0}
    only = {"taken_at": {"gte": taken_at[:7], "lte": taken_at[:7]}}
    assert api.get(f"/images?filter={json.dumps(only)}").json()["total"] == 1


def test_searches_go_on_while_pictures_come_in(api: Api) -> None:
    colours = [(name, *name.split(" and ")) for name in NAMES]
    pictures = [(f"{name}.png", png(two_coloured(left, right))) for name, left, right in colours]
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.005):
            api.library.work(api.services.storage.originals, api.services.pool)

    async def search(client: httpx.AsyncClient, number: int) -> list[httpx.Response]:
        body = {"query": NAMES[number], "k": 5, "explain": True}
        return [await client.post("/search/text", json=body) for _ in range(8)]

    async def ask(client: httpx.AsyncClient) -> tuple[list[list[httpx.Response]], list[str]]:
        searching = [asyncio.create_task(search(client, number)) for number in range(16)]
        jobs = []
        for start in range(0, len(pictures), 8):
            files = [("images", file) for file in pictures[start : start + 8]]
            jobs.append(checked(await client.post("/ingest", files=files), 202, IngestAnswer)["status_url"])
        return await asyncio.gather(*searching), jobs

    worker = threading.Thread(target=work)
    worker.start()
    try:
        answers, jobs = api.together(ask)
    finally:
        over.set()
        worker.join()
    api.library.work(api.services.storage.originals, api.services.pool)
    for answer in (one for of_client in answers for one in of_client):
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) >= 1
            continue
        for hit in checked(answer, 200, TextAnswer)["results"]:
            if hit["found_by"] == ["text"]:  # which knows a picture a moment before the view does
                assert (hit["score"], hit["explanation"]["kind"]) == (None, "text")
                continue
            assert sum(hit["explanation"]["contributions"]) == pytest.approx(hit["score"], abs=1e-6)
            assert len(hit["explanation"]["regions"]) == 4
    assert {checked(api.get(job), 200, JobAnswer)["state"] for job in jobs} == {"done"}
    assert len(checked(api.text("red", k=100), 200, TextAnswer)["results"]) == len(NAMES)


def test_a_job_that_is_done_stays_so_when_its_pictures_are_edited(api: Api) -> None:
    receipt = checked(send(api, [("red.png", RED)]), 202, IngestAnswer)
    api.library.work(api.services.storage.originals, api.services.pool)
    assert checked(api.get(receipt["status_url"]), 200, JobAnswer)["state"] == "done"
    path = f"/images/{receipt['accepted'][0]['image_id']}"
    assert api.request("PATCH", path, json={"captions": ["a wall"]}).status_code == 200
    assert checked(api.get(receipt["status_url"]), 200, JobAnswer)["state"] == "done"
    assert api.get("/jobs").json()["jobs"][0]["state"] == "done"


def test_jobs_are_listed_page_by_page(api: Api) -> None:
    sent = [send(api, [(f"{name}.png", RED)]).json()["job_id"] for name in ("a", "b", "c")]
    listed = sorted(sent)  # all of one moment, as the clock stands still
    first = checked(api.get("/jobs", limit=2), 200, JobsAnswer)
    assert [job["job_id"] for job in first["jobs"]] == listed[:2]
    last = checked(api.get("/jobs", limit=2, after=first["next"]), 200, JobsAnswer)
    assert ([job["job_id"] for job in last["jobs"]], last["next"]) == (listed[2:], None)
    fault = problem(api.get("/jobs", after="nonsense"), 422, "invalid-request")
    assert fault["errors"][0]["field"] == "after"


def test_nothing_is_taken_in_while_no_decoder_can_be_started(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        answer = send(api, [("red.png", RED)])
        problem(answer, 503, "not-ready")
        assert answer.headers["retry-after"] == "30"
    assert checked(send(api, [("red.png", RED)]), 202, IngestAnswer)["accepted"][0]["duplicate"] is False
