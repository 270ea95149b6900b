"""Requests that are sent again, by a server that is busy a few times."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard_client import AsyncClient, Client, Picture, RegardError, RequestRefused, Retries, ServerUnreachable
from regard_client.retries import BUSY, Tries, retry_after
from tests.support.busy_server import busy_server
from tests.support.either_client import CLIENTS, closed, settled, sleeper


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> type[Client] | type[AsyncClient]:
    """The client that waits and the one that is awaited."""
    made: type[Client] | type[AsyncClient] = request.param
    return made


def ask(kind: type[Client] | type[AsyncClient], url: str, ask_for: Any, **options: Any) -> tuple[Any, list[float]]:
    """What a client's method brings, and how long the client would have slept before each further try."""
    slept: list[float] = []

    async def whole() -> Any:
        client = kind(url, sleep=sleeper(kind, slept), **options)
        try:
            return await settled(ask_for(client))
        except RequestRefused as refused:
            return refused
        finally:
            await closed(client)

    return asyncio.run(whole()), slept


@pytest.mark.parametrize("status", BUSY)
def test_files_are_sent_again_from_their_beginning(
    kind: type[Client] | type[AsyncClient], status: int, tmp_path: Path
) -> None:
    contents = [b"first" * 50_000, b"second", b"third"]
    for number, content in enumerate(contents[:2]):
        (tmp_path / f"{number}.png").write_bytes(content)
    pictures = [tmp_path / "0.png", Picture(tmp_path / "1.png", captions=["a dog"]), Picture(contents[2], "2.png")]
    with busy_server([status, status], Retry_After="7") as (url, bodies):
        answer, slept = ask(kind, url, lambda client: client.ingest(pictures))
    assert answer["job_id"] == "1"
    assert slept == [7.0, 7.0]
    assert len(bodies) == 3
    for body in bodies:
        assert [body.count(content) for content in (*contents[1:], b'"captions": ["a dog"]')] == [1, 1, 1]
        assert contents[0] in body


def test_each_pause_is_told_with_its_reason(kind: type[Client] | type[AsyncClient]) -> None:
    told: list[tuple[int, str, float]] = []

    def tell(refused: RegardError, seconds: float) -> None:
        assert isinstance(refused, RequestRefused)
        told.append((refused.status, refused.reason, seconds))

    with busy_server([429, 503, 404], Retry_After="5") as (url, _):
        refused, slept = ask(kind, url, lambda client: client.failures(), on_wait=tell)
    assert (refused.status, slept) == (404, [5.0, 5.0])
    assert told == [(status, f"The server answered with status {status}.", 5.0) for status in (429, 503)]


@pytest.mark.parametrize(
    ("statuses", "headers", "sends"),
    [
        ([503], {}, 1),  # not Regard's: it does not say when
        ([503], {"Retry_After": "soon"}, 1),
        ([507], {"Retry_After": "1"}, 1),  # a full disk is not emptied by asking
        ([404], {"Retry_After": "1"}, 1),
        ([503] * 9, {"Retry_After": "1"}, 4),
        ([503] * 9, {"Retry_After": "5"}, 3),
        ([429] * 9, {"Retry_After": "11"}, 1),
        ([429] * 9, {"Retry_After": "0"}, 4),
    ],
)
def test_asking_again_has_an_end(
    kind: type[Client] | type[AsyncClient], statuses: list[int], headers: dict[str, str], sends: int
) -> None:
    with busy_server(statuses, **headers) as (url, bodies):
        refused, slept = ask(
            kind, url, lambda client: client.failures(), retries=Retries(most_sends=4, longest_wait_s=10)
        )
    assert isinstance(refused, RequestRefused)
    assert refused.status == statuses[0]
    assert (len(bodies), len(slept)) == (sends, sends - 1)


@pytest.mark.parametrize(("problem", "pauses"), [("not-ready", [4.0, 4.0]), ("overloaded", [4.0] * 5)])
def test_a_server_that_lacks_something_is_waited_for_as_long_as_is_said(
    kind: type[Client] | type[AsyncClient], problem: str, pauses: list[float]
) -> None:
    left = [httpx.Response(503, json={"type": f"urn:regard:problem:{problem}"}, headers={"Retry-After": "4"})] * 5
    left.append(httpx.Response(404, json={}))
    refused, slept = ask(
        kind,
        "x:1",
        lambda client: client.failures(),
        retries=Retries(not_ready_s=10),
        transport=httpx.MockTransport(lambda _: left.pop(0)),
    )
    assert (refused.kind, slept) == (None if len(left) == 0 else problem, pauses)


@pytest.mark.parametrize(
    ("outcomes", "pauses"),
    [
        (["there", "away", "away", "there"], [1.0, 1.0]),
        (["there", "away", "busy", "away", "there"], [1.0, 3.0, 1.0]),  # each request is waited for anew
        (["there", *["away"] * 7], [1.0, 1.0, 2.0, 4.0, 8.0, 15.0]),  # 31 s, and 15 more would be over 40
        (["away"], []),  # nothing says that there ever was a server
    ],
)
def test_a_server_that_has_answered_is_waited_for(
    kind: type[Client] | type[AsyncClient], outcomes: list[str], pauses: list[float]
) -> None:
    slept, left = list[float](), list(outcomes)

    def answer(request: httpx.Request) -> httpx.Response:
        if (outcome := left.pop(0)) == "away":
            raise httpx.ConnectError("refused")
        headers = {"Retry-After": "3"} if outcome == "busy" else {}
        return httpx.Response(503 if outcome == "busy" else 200, json={"failures": [], "next": None}, headers=headers)

    async def whole() -> Any:
        retries = Retries(away_s=40)
        client = kind("x:1", sleep=sleeper(kind, slept), retries=retries, transport=httpx.MockTransport(answer))
        try:
            for _ in range(1 + ("there" in outcomes)):
                last = await settled(client.failures())
        except ServerUnreachable as fault:
            return fault
        finally:
            await closed(client)
        return last

    ended = asyncio.run(whole())
    assert isinstance(ended, ServerUnreachable) is (outcomes[-1] == "away")
    assert (slept, left) == (pauses, [])


@pytest.mark.parametrize(
    ("fault", "pauses"),
    [(httpx.ConnectError("refused"), [1.0]), (httpx.ReadError("reset"), []), (httpx.ReadTimeout("late"), [])],
)
def test_a_deletion_that_may_have_been_done_and_a_server_that_hangs_are_not_tried_again(
    kind: type[Client] | type[AsyncClient], fault: httpx.RequestError, pauses: list[float]
) -> None:
    slept, asked = list[float](), list[str]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.method)
        if asked.count("DELETE") == 1:
            raise fault
        return httpx.Response(200, json={"failures": [], "next": None})

    async def whole() -> None:
        retries = Retries(away_s=40)
        client = kind("x:1", sleep=sleeper(kind, slept), retries=retries, transport=httpx.MockTransport(answer))
        await settled(client.failures())
        try:
            await settled(client.delete("a"))
        except ServerUnreachable:
            assert not pauses
        finally:
            await closed(client)

    asyncio.run(whole())
    assert (slept, asked) == (pauses, ["GET", *["DELETE"] * (1 + len(pauses))])


def test_a_health_check_is_asked_once(kind: type[Client] | type[AsyncClient]) -> None:
    with busy_server([503], Retry_After="1") as (url, bodies):
        alive, slept = ask(kind, url, lambda client: client.is_alive())
    assert (alive, len(bodies), slept) == (False, 1, [])


@given(
    answers=st.lists(st.integers(0, 100), max_size=40),
    most=st.integers(1, 30),
    longest=st.floats(0, 1000),
)
def test_sends_and_pauses_keep_within_their_bounds(answers: list[int], most: int, longest: float) -> None:
    tries = Tries(Retries(most_sends=most, longest_wait_s=longest))
    pauses = []
    for seconds in answers:
        pause = tries.pause(503, {"retry-after": str(seconds)})
        if pause is None:
            break
        pauses.append(pause)
    assert len(pauses) < most
    assert sum(pauses) <= longest
    assert pauses == answers[: len(pauses)]
    stopped_early = len(pauses) < len(answers)
    assert not stopped_early or len(pauses) == most - 1 or sum(answers[: len(pauses) + 1]) > longest


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": " 0 "}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:28:30 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "٣"}, None),
        ({}, None),
    ],
)
def test_when_to_come_back_is_read_as_seconds_or_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds
