"""The web application: routes, the mapping of exceptions to problem documents, and the middleware around both."""

import asyncio
import logging
import re
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from index.catalog_faults import DamagedCatalog, MissingCatalog, ReadOnlyCatalog
from service import VERSION
from service.api.access import AccessMiddleware
from service.api.content_policy import protective_headers
from service.api.dependencies import ClientDisconnected
from service.api.failure_log import log_failure
from service.api.openapi import complete_document
from service.api.problems import invalid_request, problem_response, problem_responses
from service.api.query_parameters import refuse_unknown_parameters
from service.api.request_guard import RequestGuard
from service.api.request_origin import RequestOrigin
from service.api.routes import (
    docs,
    explanations,
    health,
    images,
    ingest,
    library,
    models,
    page,
    picture_changes,
    search,
    session,
)
from service.api.services import Services
from service.api.tracing import Tracing
from service.errors import (
    BadRequest,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    NotReady,
    Problem,
    ReadOnlyCollection,
    TooLarge,
)
from service.media.decode_process import NoDecoder
from service.storage.free_space import disk_problem

log = logging.getLogger(__name__)

BLOCKING_THREADS = 32
MAX_BODY_BYTES = 2**20  # of every route that takes no files
AWAY_RETRY_S = 30
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def create_app(services: Services, innermost: Callable[[ASGIApp], ASGIApp] | None = None) -> FastAPI:
    """The application over these services; it starts and closes them with the server.

    `innermost` is put around the routes, inside all guards.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # Python's own default has a handful of threads on a small machine, and a slow upload holds one.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(BLOCKING_THREADS))
        services.start()
        yield
        await services.close()

    app = create_routes(lifespan, services.tracing)
    app.state.services = services
    if innermost is not None:
        app.add_middleware(innermost)
    app.add_middleware(AccessMiddleware, services=services, routes=app.routes)
    app.add_middleware(RequestGuard, origin=RequestOrigin(services.settings.allowed_hosts))
    app.add_middleware(RequestMiddleware, services=services)  # the outermost
    return app


def create_routes(lifespan: Any = None, tracing: Tracing | None = None) -> FastAPI:
    """The application without services: enough to write its OpenAPI document."""
    app = FastAPI(
        title="Regard",
        version=VERSION,
        summary="Search your own pictures by what is in them, and see which region answered which word.",
        lifespan=lifespan,
        telemetry=(tracing or Tracing()).config,
        redirect_slashes=False,  # to an address without https or a name of its own, where a proxy stands in front
        docs_url=None,  # FastAPI's own loads its script from elsewhere
        redoc_url=None,
        exception_handlers={
            Problem: handle_problem,
            RequestValidationError: handle_validation_error,
            HTTPException: handle_http_exception,
            ClientDisconnect: handle_disconnect,
            ReadOnlyCatalog: handle_read_only,
            DamagedCatalog: handle_damage,
            MissingCatalog: handle_missing,
            NoDecoder: handle_no_decoder,
            sqlite3.OperationalError: handle_disk,
        },
    )
    for routes in (page, docs, images, health, session):  # shown by browsers and asked by probes, which may add some
        app.include_router(routes.router)
    for routes in (search, explanations, ingest, library, picture_changes, models):
        app.include_router(
            routes.router,
            dependencies=[Depends(refuse_unknown_parameters)],
            responses=problem_responses(InvalidRequest),
        )
    make_document, made = app.openapi, dict[str, Any]()

    def openapi() -> dict[str, Any]:
        if not made:  # FastAPI keeps its document, which is to be completed once
            made.update(make_document())
            complete_document(made)
        return made

    app.openapi = openapi  # type: ignore[method-assign]
    return app


async def handle_problem(request: Request, problem: Problem) -> Response:
    """The response to a Problem that a route raised."""
    return problem_response(problem, request.scope)


async def handle_read_only(request: Request, fault: ReadOnlyCatalog) -> Response:
    """The response to a change where nothing can be changed."""
    problem = ReadOnlyCollection("The data directory of this service may not be written: it can be searched alone.")
    return problem_response(problem, request.scope)


async def handle_disk(request: Request, fault: sqlite3.OperationalError) -> Response:
    """The response to a change that the disk has no room for; any other fault goes on."""
    problem = disk_problem(fault)
    if problem is None:
        raise fault
    return problem_response(problem, request.scope)


async def handle_damage(request: Request, fault: DamagedCatalog) -> Response:
    """The response where the catalog cannot be read any more; the log has the path."""
    log.error("%s", fault)
    problem = NotReady("The catalog of this service is damaged; its log says what to do.")
    return problem_response(problem, request.scope)


async def handle_missing(request: Request, fault: MissingCatalog) -> Response:
    """The response while the data directory is away; the log has the path."""
    log.error("%s", fault)
    problem = NotReady(
        "The data directory of this service is away; its log says which. Nothing is taken in until it is back.",
        retry_after=AWAY_RETRY_S,
    )
    return problem_response(problem, request.scope)


async def handle_no_decoder(request: Request, fault: NoDecoder) -> Response:
    """The response where no process can be started that looks at pictures; the log says why."""
    log.error("%s", fault)
    problem = NotReady(
        "No process can be started that looks at pictures; the log of this service says why.", retry_after=AWAY_RETRY_S
    )
    return problem_response(problem, request.scope)


async def handle_disconnect(request: Request, fault: ClientDisconnect) -> Response:
    """The response, for the log alone, to a client that hung up while it was still sending."""
    return problem_response(ClientDisconnected("The caller hung up before the request was complete."), request.scope)


async def handle_validation_error(request: Request, fault: RequestValidationError) -> Response:
    """The response to invalid fields, each with its name and what is wrong with it."""
    return problem_response(invalid_request(fault.errors()), request.scope)


async def handle_http_exception(request: Request, fault: HTTPException) -> Response:
    """The response to a request that the framework itself refuses."""
    path = request.url.path
    problem: Problem
    match fault.status_code:
        case 404:
            problem = NotFound(f"There is no route {path}; /docs lists all of them.")
        case 405:
            allowed = dict(fault.headers or {}).get("Allow", "").replace("GET", "GET, HEAD")
            problem = MethodNotAllowed(
                f"{request.method} {path} is not possible; allowed: {allowed}.", headers={"Allow": allowed}
            )
        case 413:
            problem = TooLarge(fault.detail)
        case 400:
            problem = BadRequest("The body cannot be read: send JSON in UTF-8, of moderate depth.")
        case _:
            problem = BadRequest(fault.detail)
    return problem_response(problem, request.scope)


class RequestMiddleware:
    """Gives each request an id, limits small bodies, counts responses, and answers unexpected exceptions."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._metrics = services.metrics
        self._is_one_of_several = services.settings.web_processes > 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope["request_id"] = request_id
        started, status = time.perf_counter(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    *protective_headers(status, message["headers"]),
                ]
                if status == NotReady.status and self._is_one_of_several:  # the next connection may reach another one
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        try:
            await self._app(scope, limit_body(scope, receive), send_with_id)
        except asyncio.CancelledError:  # the service ends, and this request has had the time that it leaves to any
            if status == 0:
                ending = NotReady("The service ends; send the request again.", retry_after=AWAY_RETRY_S)
                await problem_response(ending, scope)(scope, receive, send_with_id)
        except Exception as fault:  # the outermost place; the client gets the name of the fault in the log
            log_failure(log, fault, request_id, scope["method"], getattr(scope.get("route"), "path", "none"))
            if status == 0:
                problem = Problem(f"This is a fault of the server; its log names it by {request_id}.")
                await problem_response(problem, scope)(scope, receive, send_with_id)
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.latency.labels(route).observe(time.perf_counter() - started)


def limit_body(scope: Scope, receive: Receive) -> Receive:
    """`receive` with bodies limited to MAX_BODY_BYTES; routes that take files limit theirs as they receive them."""
    if scope["path"] in (ingest.PATH, search.IMAGE_PATH):
        return receive
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY_BYTES:
            raise HTTPException(413, f"The body of this request may have {MAX_BODY_BYTES} bytes at most.")
        return message

    return receive_limited
