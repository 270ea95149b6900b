"""The web application: routes, the one mapping of faults to problem documents, and the door around both."""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.dependencies import Gone
from service.api.openapi import complete
from service.api.problems import invalid, response_of
from service.api.routes import health, images, ingest, models, search
from service.api.services import Services
from service.errors import (
    BadRequest,
    MethodNotAllowed,
    NotFound,
    Problem,
    TooLarge,
)

log = logging.getLogger(__name__)

BLOCKING_THREADS = 32
SMALL_BODY = 2**20  # bytes; of every route that takes no files
SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def create_app(services: Services) -> FastAPI:
    """The application over these services; it starts and closes them with the server."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # Python's own default has a handful of threads on a small machine, and a slow upload holds one.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(BLOCKING_THREADS))
        services.start()
        yield
        await services.close()

    app = describe(lifespan)
    app.state.services = services
    app.add_middleware(Door, services=services)
    return app


def describe(lifespan: Any = None) -> FastAPI:
    """The routes without anything behind them: what the OpenAPI document is made of."""
    app = FastAPI(
        title="Regard",
        version="0.1.0",
        summary="Search your own pictures by what is in them, and see which region answered which word.",
        lifespan=lifespan,
        exception_handlers={
            Problem: on_problem,
            RequestValidationError: on_invalid,
            HTTPException: on_http_exception,
            ClientDisconnect: on_hang_up,
        },
    )
    for routes in (search, ingest, images, models, health):
        app.include_router(routes.router)
    make_document = app.openapi

    def openapi() -> dict[str, Any]:
        document = make_document()
        complete(document)
        return document

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def instance_of(request: Request) -> str:
    """The name of this very request, as it is in the log and in X-Request-ID."""
    return f"urn:regard:request:{request.scope.get('request_id', 'unknown')}"


async def on_problem(request: Request, problem: Problem) -> Response:
    """A fault that was meant for the caller."""
    return response_of(problem, instance_of(request))


async def on_hang_up(request: Request, fault: ClientDisconnect) -> Response:
    """A caller who left while still sending."""
    return response_of(Gone("The caller hung up before the request was complete."), instance_of(request))


async def on_invalid(request: Request, fault: RequestValidationError) -> Response:
    """Fields that did not check: each with its name and what is wrong."""
    return response_of(invalid(fault.errors()), instance_of(request))


async def on_http_exception(request: Request, fault: HTTPException) -> Response:
    """What the framework itself refuses."""
    path = request.url.path
    problem: Problem
    match fault.status_code:
        case 404:
            problem = NotFound(f"There is no route {path}; /docs lists all of them.")
        case 405:
            allowed = dict(fault.headers or {}).get("Allow", "")
            problem = MethodNotAllowed(
                f"{request.method} {path} is not possible; allowed: {allowed}.", headers=fault.headers
            )
        case 413:
            problem = TooLarge(fault.detail)
        case _:
            problem = BadRequest(fault.detail)
    return response_of(problem, instance_of(request))


class Door:
    """Around everything: names requests, bounds small bodies, counts answers, answers unforeseen faults."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._metrics = services.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request_id = given if SANE_ID.fullmatch(given) else uuid.uuid4().hex
        scope["request_id"] = request_id
        started, status = time.perf_counter(), 0

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        try:
            await self._app(scope, bounded(scope, receive), send_named)
        except Exception:  # the door: nothing a caller did is told how it failed, the log is
            log.exception("request %s: %s %s failed", request_id, scope["method"], scope["path"])
            if status == 0:
                problem = Problem(f"This is a fault of the server; its log names it by {request_id}.")
                await response_of(problem, f"urn:regard:request:{request_id}")(scope, receive, send_named)
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.latency.labels(route).observe(time.perf_counter() - started)


def bounded(scope: Scope, receive: Receive) -> Receive:
    """`receive`, ending a body beyond SMALL_BODY; routes that take files bound theirs while spooling."""
    if scope["path"] in (ingest.PATH, search.IMAGE_PATH):
        return receive
    received = 0

    async def receive_bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > SMALL_BODY:
            raise HTTPException(413, f"The body of this request may have {SMALL_BODY} bytes at most.")
        return message

    return receive_bounded
