"""A request for one picture is answered by a replica that has what is asked for, given the time that drawing takes."""

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from service.cluster.asgi_calls import AppResponse
from service.cluster.fan_out import FanOut
from service.cluster.router import ForwardToShards

PATH = "/images/{image_id}/original"


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


def asked(*replicas: Answering, headers: list[tuple[bytes, bytes]] | None = None) -> int:
    """The status of the answer to a request for a picture whose shard has these replicas."""
    pictures: Any = SimpleNamespace(home=lambda image_id: 0)
    sent: list[dict[str, Any]] = []

    async def app(*_: Any) -> None:
        raise AssertionError("the router has no such picture of its own")

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/images/ab/original",
        "path_params": {"image_id": "ab"},
        "query_string": b"",
        "headers": headers or [],
        "route": SimpleNamespace(path=PATH),
    }
    forward = ForwardToShards(app, pictures, FanOut([replicas], 30.0), 30.0)
    asyncio.run(forward(scope, None, send))
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
    asked(one, headers=[(b"range", b"bytes=0-9"), (b"cookie", b"secret"), (b"x-request-id", b"forged")])
    assert one.requests[0].headers == ((b"range", b"bytes=0-9"),)
