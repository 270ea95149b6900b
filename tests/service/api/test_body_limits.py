"""Bodies over the limit of a request are refused before an answer begins, and cut none."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from starlette.exceptions import HTTPException

from service.api.dependencies import ClientDisconnected, cancel_on_disconnect
from service.api.middleware.request import MAX_BODY_BYTES
from service.api.schemas.resources import IngestAnswer
from tests.support.library import Library, two_coloured
from tests.support.web_app import Api, checked, png, problem, served

LARGE = b" " * (MAX_BODY_BYTES + 1)


async def in_pieces() -> AsyncIterator[bytes]:
    """A body that is sent without its length."""
    for start in range(0, len(LARGE), 2**16):
        yield LARGE[start : start + 2**16]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with served(Library(tmp_path)) as made:
        yield made


@pytest.fixture
def image_id(api: Api) -> str:
    answer = api.request("POST", "/ingest", files={"images": ("a.png", png(two_coloured("red", "blue", 400, 200)))})
    api.library.work(api.services.storage.originals, api.services.pool)
    found: str = checked(answer, 202, IngestAnswer)["accepted"][0]["image_id"]
    return found


@pytest.mark.parametrize("path", ["/images/{}", "/images/{}/original", "/images/{}/explain.png?query=red", "/images"])
def test_one_with_its_length_is_refused_at_once(api: Api, image_id: str, path: str) -> None:
    problem(api.request("GET", path.format(image_id), content=LARGE), 413, "too-large")
    assert api.request("GET", path.format(image_id), content=LARGE[:-1]).status_code == 200


@pytest.mark.parametrize("path", ["/images/{}", "/images/{}/explain.png?query=red", "/images", "/jobs/{}/events"])
def test_one_in_pieces_cuts_no_answer(api: Api, image_id: str, path: str) -> None:
    job_id = api.services.collection.progress.jobs(None, 1)[0].job_id
    path = path.format(job_id if "jobs" in path else image_id)
    whole = api.request("GET", path)
    answer = api.request("GET", path, content=in_pieces())
    assert (answer.status_code, answer.content) == (200, whole.content)


def test_one_in_pieces_is_refused_where_it_is_read(api: Api) -> None:
    headers = {"content-type": "application/json"}
    problem(api.request("POST", "/search/text", content=in_pieces(), headers=headers), 413, "too-large")


def test_who_waits_for_work_is_told_why_its_body_is_refused() -> None:
    async def refused() -> dict[str, Any]:
        raise HTTPException(413, "too much")

    async def run() -> None:
        await cancel_on_disconnect(Request({"type": "http"}, refused), asyncio.sleep(60.0))

    with pytest.raises(HTTPException, match="too much"):
        asyncio.run(run())


def test_work_that_is_given_up_has_ended_before_its_request_does() -> None:
    ended = list[bool]()

    async def hang_up() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def work() -> None:
        try:
            await asyncio.sleep(60.0)
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async def run() -> None:
        with pytest.raises(ClientDisconnected):
            await cancel_on_disconnect(Request({"type": "http"}, hang_up), work())
        assert ended

    asyncio.run(run())
