"""Server-sent events of a job: each state once, to its end, within a bound on time and number."""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.api.admission.request_slots import MAX_STREAMS, RequestSlots
from service.api.job_events import job_events
from service.api.schemas.resources import JobAnswer
from service.errors import Overloaded
from tests.support.library import Library, two_coloured
from tests.support.web_app import Api, png


def job(done: int, state: Any = "running") -> JobAnswer:
    return JobAnswer(
        job_id="j",
        created_at=datetime(2026, 11, 30, tzinfo=UTC),
        state=state,
        total=3,
        done=done,
        failed=0,
        failures=[],
    )


def followed(*states: JobAnswer | None, **options: Any) -> list[bytes]:
    """The events of a job that is seen in these states, one after the other, and then in the last."""
    waiting = list(states[1:])

    async def look() -> JobAnswer | None:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    async def run() -> list[bytes]:
        assert states[0] is not None
        return [event async for event in job_events(states[0], look, **options)]

    return asyncio.run(run())


def progress_of(events: list[bytes]) -> list[int]:
    """`done` of each event."""
    lines = b"".join(events).decode().splitlines()
    return [json.loads(line.removeprefix("data: "))["done"] for line in lines if line.startswith("data: ")]


def test_each_state_is_told_once_and_the_end_ends_it() -> None:
    events = followed(job(0), job(0), job(1), job(1), job(2), job(3, "done"), poll_s=0.001)
    assert progress_of(events) == [0, 1, 2, 3]
    assert events[0].startswith(b"retry: ")


def test_only_the_last_state_has_the_id_that_ends_reconnecting() -> None:
    *before, end = followed(job(0), job(1), job(3, "done"), poll_s=0.001)
    assert b"id: done\n" in end
    assert not any(b"id:" in event for event in before)
    assert not any(b"id:" in event for event in followed(job(0), job(1), None, poll_s=0.001))


def test_a_job_that_is_forgotten_meanwhile_ends_it() -> None:
    assert progress_of(followed(job(0), job(1), None, job(2), poll_s=0.001)) == [0, 1]


def test_a_job_that_is_done_is_told_at_once() -> None:
    assert progress_of(followed(job(3, "done"), job(3, "done"))) == [3]


def test_a_stream_ends_with_the_service() -> None:
    assert progress_of(followed(job(0), job(1), is_over=lambda: True)) == [0]


def test_a_stream_ends_with_its_time() -> None:
    assert progress_of(followed(job(0), job(0), longest_s=0.005, poll_s=0.001)) == [0]


def test_the_head_of_a_stream_does_not_wait_for_its_end(tmp_path: Path) -> None:
    library = Library(tmp_path)
    api = Api(library)
    upload = api.request("POST", "/ingest", files={"images": ("red.png", png(two_coloured("red", "red")))})
    head = api.request("HEAD", f"/jobs/{upload.json()['job_id']}/events")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/event-stream")
    assert head.headers["x-accel-buffering"] == "no"
    api.services.capacity.streams.check()
    api.close()
    library.close()


def test_more_streams_than_there_may_be_are_refused() -> None:
    slots = RequestSlots.of_streams(1)
    slots.check()
    with slots.taken(), pytest.raises(Overloaded):
        slots.check()
    slots.check()


def test_requests_that_come_at_once_open_no_more_streams_than_there_may_be(tmp_path: Path) -> None:
    library = Library(tmp_path)
    api = Api(library)
    upload = api.request("POST", "/ingest", files={"images": ("red.png", png(two_coloured("red", "red")))})
    path = f"/jobs/{upload.json()['job_id']}/events"

    async def ask(client: httpx.AsyncClient) -> list[httpx.Response]:
        asking = [asyncio.create_task(client.get(path)) for _ in range(MAX_STREAMS + 20)]
        while sum(task.done() for task in asking) < 20:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(
            library.work, api.services.storage.originals, api.services.pool
        )  # which ends the streams
        return list(await asyncio.gather(*asking))

    answers = api.together(ask)
    assert Counter(answer.status_code for answer in answers) == {200: MAX_STREAMS, 503: 20}
    assert api.get(path).status_code == 200
    api.close()
    library.close()
