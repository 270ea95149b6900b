"""The outermost middleware: request ids, metrics, a bound on bodies, an answer to any exception."""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Callable, Collection

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.dependencies import content_length
from service.api.middleware.content_policy import protective_headers
from service.api.middleware.failure_log import log_failure
from service.api.middleware.guard import take_path_of_target
from service.api.problems import AWAY_RETRY_S, problem_response
from service.api.services import Services
from service.errors import NotReady, Problem, TooLarge

MAX_BODY_BYTES = 2**20  # of routes that take no files
TOO_LARGE = f"The body of this request may have {MAX_BODY_BYTES} bytes at most."
BODILESS = ("GET", "HEAD")  # they keep receiving, to notice a client that hangs up, while their answer is sent
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

log = logging.getLogger(__name__)


class RequestMiddleware:
    """Gives each request an id, limits small bodies, counts responses, and answers unexpected exceptions."""

    def __init__(self, app: ASGIApp, services: Services, takes_files: Collection[str]) -> None:
        """`takes_files` are the paths of routes that limit bodies themselves, as they receive them."""
        self._app, self._takes_files = app, takes_files
        self._metrics = services.metrics
        self._is_one_of_several = services.settings.web_processes > 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        take_path_of_target(scope)  # before anything uses it
        client_id = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request_id = client_id if REQUEST_ID.fullmatch(client_id) else uuid.uuid4().hex
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
                if (
                    status == NotReady.status and self._is_one_of_several
                ):  # the next connection may reach another process
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        try:
            await self._pass(scope, receive, send_with_id, lambda: status != 0)
        except asyncio.CancelledError:  # the service ends, and the grace period of this request is over
            if status == 0:
                ending = NotReady("The service ends; send the request again.", retry_after=AWAY_RETRY_S)
                await problem_response(ending, scope)(scope, receive, send_with_id)
        except Exception as fault:  # the client gets the request's id, by which the log names it
            log_failure(log, fault, request_id, scope["method"], route_of(scope))
            if status == 0:
                problem = Problem(f"This is a fault of the server; its log names it by {request_id}.")
                await problem_response(problem, scope)(scope, receive, send_with_id)
        route = route_of(scope)
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.latency.labels(route).observe(time.perf_counter() - started)

    async def _pass(self, scope: Scope, receive: Receive, send: Send, has_begun: Callable[[], bool]) -> None:
        """Pass the request on, unless its body is too large."""
        if scope["path"] in self._takes_files:
            await self._app(scope, receive, send)
        elif (content_length(Request(scope)) or 0) > MAX_BODY_BYTES:
            await problem_response(TooLarge(TOO_LARGE), scope)(scope, receive, send)
        else:
            takes_body = scope["method"] not in BODILESS
            await self._app(scope, limit_body(receive, lambda: takes_body and not has_begun()), send)


def route_of(scope: Scope) -> str:
    """The path of a request's route, with the names of its parameters; `none` without a route."""
    return getattr(scope.get("route"), "path", "none")


def limit_body(receive: Receive, may_refuse: Callable[[], bool]) -> Receive:
    """`receive` with bodies limited to MAX_BODY_BYTES; once it is too late to refuse one, the rest is dropped."""
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received <= MAX_BODY_BYTES:
            return message
        if may_refuse():
            raise HTTPException(TooLarge.status, TOO_LARGE)
        return {**message, "body": b""}

    return receive_limited
