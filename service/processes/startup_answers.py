"""Responses of a service that is still loading its models, so that clients see that it runs."""

import contextlib
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from service.errors import NotReady
from service.problem_page import HTML, is_opened_by_browser, problem_page
from service.processes.connections import web_server
from service.settings import Settings

RELOAD_S = 3
DETAIL = "Regard is loading its models, which takes seconds up to a minute; ask again soon."
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]


async def answer_loading(scope: Message, receive: Callable[[], Awaitable[Message]], send: Send) -> None:
    """An ASGI application that is alive, but not ready for anything."""
    if scope["type"] != "http":
        return
    is_health = scope["path"] == "/livez"
    kind, body = ("application/json", '{"status": "alive"}') if is_health else loading_answer(scope)
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body.encode())).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),  # so that the next request reaches the loaded service
    ]
    if not is_health:
        headers.append((b"retry-after", str(RELOAD_S).encode()))
    await send({"type": "http.response.start", "status": 200 if is_health else NotReady.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body.encode()})


def loading_answer(scope: Message) -> tuple[str, str]:
    """The media type and the text of the response: for a browser's navigation, a page that reloads itself."""
    problem = loading_problem(scope["path"])
    if is_opened_by_browser(scope):
        return HTML, problem_page(problem, RELOAD_S)
    return "application/problem+json", json.dumps(problem.document("urn:regard:request:none"))


def loading_problem(path: str) -> NotReady:
    """The problem for a path."""
    if path == "/readyz":
        return NotReady("loading", retry_after=RELOAD_S, checks={"model": "loading"})
    return NotReady(DETAIL, retry_after=RELOAD_S)


@contextlib.contextmanager
def answered_while_loading(listening: socket.socket, settings: Settings) -> Iterator[None]:
    """Answers on the socket while the block runs; later connections wait for the server that follows."""
    server = web_server(answer_loading, settings)
    # The server closes its socket: it gets a duplicate, so that the original keeps listening.
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening.dup()]}, name="loading", daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        thread.join(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
