"""The handlers that answer each exception of a request with a problem document."""

import logging
import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from index.catalog.database.faults import DamagedCatalog, MissingCatalog, ReadOnlyCatalog
from service.api.dependencies import ClientDisconnected
from service.api.problems import AWAY_RETRY_S, invalid_request, problem_response
from service.errors import BadRequest, MethodNotAllowed, NotFound, NotReady, Problem, ReadOnlyCollection, TooLarge
from service.media.decode_process import NoDecoder
from service.storage.disk import disk_problem

log = logging.getLogger(__name__)


async def handle_problem(request: Request, problem: Problem) -> Response:
    """The response to a Problem that a route raised."""
    return problem_response(problem, request.scope)


async def handle_read_only(request: Request, fault: ReadOnlyCatalog) -> Response:
    """The response to a change of a read-only catalog."""
    problem = ReadOnlyCollection("The data directory of this service may not be written: it can be searched alone.")
    return problem_response(problem, request.scope)


async def handle_disk(request: Request, fault: sqlite3.OperationalError) -> Response:
    """The response to a change where the disk is full or another process locks the catalog; any other fault is raised
    again."""
    problem = disk_problem(fault)
    if problem is None:
        raise fault
    return problem_response(problem, request.scope)


async def handle_damage(request: Request, fault: DamagedCatalog) -> Response:
    """The response where the catalog is damaged; the log has the path."""
    log.error("%s", fault)
    problem = NotReady("The catalog of this service is damaged; its log says what to do.")
    return problem_response(problem, request.scope)


async def handle_missing(request: Request, fault: MissingCatalog) -> Response:
    """The response while the data directory is missing; the log has the path."""
    log.error("%s", fault)
    problem = NotReady(
        "The data directory of this service is away; its log says which. Nothing is taken in until it is back.",
        retry_after=AWAY_RETRY_S,
    )
    return problem_response(problem, request.scope)


async def handle_no_decoder(request: Request, fault: NoDecoder) -> Response:
    """The response where no decoding process can be started; the log says why."""
    log.error("%s", fault)
    problem = NotReady(
        "No process can be started that looks at pictures; the log of this service says why.", retry_after=AWAY_RETRY_S
    )
    return problem_response(problem, request.scope)


async def handle_disconnect(request: Request, fault: ClientDisconnect) -> Response:
    """The response, for the log alone, to a client that hung up while it was still sending."""
    return problem_response(ClientDisconnected("The caller hung up before the request was complete."), request.scope)


async def handle_validation_error(request: Request, fault: RequestValidationError) -> Response:
    """The response to invalid fields, with the name and problem of each."""
    return problem_response(invalid_request(fault.errors()), request.scope)


async def handle_http_exception(request: Request, fault: HTTPException) -> Response:
    """The response to a request that the framework itself rejects."""
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


# Typed with Any, since FastAPI's type wants handlers of every exception, and these take one kind each.
HANDLERS: dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    Problem: handle_problem,
    RequestValidationError: handle_validation_error,
    HTTPException: handle_http_exception,
    ClientDisconnect: handle_disconnect,
    ReadOnlyCatalog: handle_read_only,
    DamagedCatalog: handle_damage,
    MissingCatalog: handle_missing,
    NoDecoder: handle_no_decoder,
    sqlite3.OperationalError: handle_disk,
}
