"""A request for one picture is answered by a replica that has what is asked for, given the time that drawing takes."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from service.api.access.permissions import NEEDED
from service.cluster.asgi_calls import AppResponse
from service.cluster.routing.fan_out import FanOut
from service.cluster.routing.router import FORWARDED, ForwardToShards
from service.cluster.routing.threads import MOST_OF_A_SHARD

PATH = "/images/{image_id}/original"

# Routes that read a single picture, and are answered by the router from what shards say about it.
ANSWERED_BY_ROUTERS: set[str] = set()


class Answering:
    """A replica whose every answer has one status."""

    def __init__(self, status: int) -> None:
        self.name, self.status, self.requests = str(status), status, list[Any]()

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        assert method == "http"
        self.requests.append(arguments[0])
        future: Future[Any] = Future()
        future.set_result(AppResponse(self.status, (), self.name.encode()))
        return future


async def unreachable(*_: Any) -> None:
    raise AssertionError("the router has no such picture of its own")


def scope_of(image_id: str, headers: list[tuple[bytes, bytes]] | None = None) -> dict[str, Any]:
    """A request for a picture's file."""
    return {
        "type": "http",
        "method": "GET",
        "path": f"/images/{image_id}/original",
        "path_params": {"image_id": image_id},
        "query_string": b"",
        "headers": headers or [],
        "route": SimpleNamespace(path=PATH),
    }


def asked(*replicas: Answering, headers: list[tuple[bytes, bytes]] | None = None) -> int:
    """The status of the answer to a request for a picture whose shard has these replicas."""
    homes: Any = SimpleNamespace(places=lambda image_id: [0])
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    forward = ForwardToShards(unreachable, homes, FanOut([replicas], 30.0), 30.0)
    asyncio.run(forward(scope_of("ab", headers), None, send))
    assert sent[1]["body"] == str(sent[0]["status"]).encode()
    status: int = sent[0]["status"]
    return status


@pytest.mark.parametrize("lacking", [404, 500, 503])
def test_what_one_replica_lacks_is_had_of_its_sibling(lacking: int) -> None:
    for replicas in ([lacking, 200], [200, lacking]):
        assert asked(*map(Answering, replicas)) == 200
    assert asked(Answering(lacking), Answering(404)) == 404


def test_an_answer_is_asked_for_once() -> None:
    replicas = [Answering(304), Answering(304)]
    assert asked(*replicas) == 304
    assert sum(len(one.requests) for one in replicas) == 1


def test_headers_that_say_what_is_wanted_travel_and_no_others() -> None:
    one = Answering(200)
    wanted = [(b"range", b"bytes=0-9"), (b"if-modified-since", b"Sat, 28 Nov 2026 11:00:00 GMT")]
    asked(one, headers=[*wanted, (b"cookie", b"secret"), (b"x-request-id", b"forged")])
    assert one.requests[0].headers == tuple(wanted)


PATIENCE_S = 4.0  # so long that a machine that stalls meanwhile is not taken for the shard


class Hanging(Answering):
    """A replica that never answers."""

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        self.requests.append(arguments[0])
        return Future()


def test_a_shard_that_hangs_holds_up_nothing_else() -> None:
    class Moving:
        """Pictures by the names of their shards; one that moves to the shard that hangs is not there yet."""

        def places(self, image_id: str) -> Sequence[int]:
            return [0, 1] if image_id == "moves" else [int(image_id)]

        def home(self, image_id: str) -> int:
            return 1

    homes: Any = Moving()
    hanging, well = Hanging(503), Answering(200)

    async def all_asked() -> tuple[list[int], float]:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        forward = ForwardToShards(unreachable, homes, FanOut([[hanging], [well]], 30.0), PATIENCE_S)

        async def status(shard: str) -> int:
            sent: list[dict[str, Any]] = []

            async def send(message: dict[str, Any]) -> None:
                sent.append(message)

            await forward(scope_of(shard), None, send)
            found: int = sent[0]["status"]
            return found

        began = loop.time()
        lost = [asyncio.ensure_future(status("0")) for _ in range(MOST_OF_A_SHARD)]
        await asyncio.sleep(0)
        assert await status("0") == 503  # one too many, at once
        assert [await status(one) for one in ("1", "moves")] == [200, 200]
        assert await asyncio.to_thread(lambda: "a thread of an upload") == "a thread of an upload"
        assert loop.time() - began < PATIENCE_S
        assert not any(one.done() for one in lost)
        ended = await asyncio.gather(*lost)
        return ended, loop.time() - began

    statuses, seconds = asyncio.run(all_asked())
    assert statuses == [503] * MOST_OF_A_SHARD
    assert seconds < 5 * PATIENCE_S  # one that waited for a thread has no more time than others
    assert len(hanging.requests) < MOST_OF_A_SHARD


def test_every_route_that_reads_one_picture_is_forwarded() -> None:
    of_one = {path for method, path in NEEDED if method == "GET" and path.startswith("/images/{image_id}")}
    assert of_one - ANSWERED_BY_ROUTERS == set(FORWARDED), (
        "a router has no files and regions: add the route to FORWARDED, or to ANSWERED_BY_ROUTERS if it needs none"
    )
