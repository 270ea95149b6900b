"""In-process requests to an ASGI application that runs on an event loop of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

HOST_HEADER = (b"host", b"localhost")


@dataclass(frozen=True)
class AppRequest:
    """A request without its connection."""

    method: str
    path: str
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""


@dataclass(frozen=True)
class AppResponse:
    """A whole response."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class AppThread:
    """An application, and the thread that runs it."""

    def __init__(self, app: Callable[..., Any], lifespan: AbstractAsyncContextManager[Any]) -> None:
        """Starts at once; `lifespan` is entered and left in the thread."""
        self._app, self._lifespan = app, lifespan
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="app", daemon=True)
        self._thread.start()
        self._run(lifespan.__aenter__())

    def call(self, request: AppRequest) -> AppResponse:
        """The application's response; blocks."""
        return self._run(self._call(request))

    def close(self) -> None:
        """Leave the lifespan and end the thread."""
        self._run(self._lifespan.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _call(self, request: AppRequest) -> AppResponse:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": request.path,
            "raw_path": request.path.encode(),
            "query_string": request.query,
            "root_path": "",
            "headers": [HOST_HEADER, *request.headers],
            "client": ("127.0.0.1", 0),
            "server": ("127.0.0.1", 0),
        }
        received, ended = False, asyncio.Event()
        start: dict[str, Any] = {}
        body = bytearray()

        async def receive() -> dict[str, Any]:
            nonlocal received
            if not received:
                received = True
                return {"type": "http.request", "body": request.body, "more_body": False}
            await ended.wait()  # the caller never disconnects
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                body.extend(message.get("body", b""))

        try:
            await self._app(scope, receive, send)
        finally:
            ended.set()
        return AppResponse(start["status"], tuple((bytes(a), bytes(b)) for a, b in start["headers"]), bytes(body))
