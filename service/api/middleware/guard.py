"""Middleware that refuses requests of other sites, and answers HEAD as GET without the body."""

from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.middleware.origin import RequestOrigin
from service.api.problems import problem_response
from service.errors import BadRequest, Problem, UnsupportedEncoding
from service.settings import MAX_HEAD_BYTES

ADDRESSES = (b"http://", b"https://")


class RequestGuard:
    """Passes the requests that RequestOrigin allows."""

    def __init__(self, app: ASGIApp, origin: RequestOrigin) -> None:
        self._app = app
        self._origin = origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            as_get = {**scope, "method": "GET"}
            try:
                await self._check_and_pass(as_get, receive, without_body(send))
            finally:
                if "route" in as_get:
                    scope["route"] = as_get["route"]  # for metrics
            return
        await self._check_and_pass(scope, receive, send)

    async def _check_and_pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            check_head(scope)
            self._origin.check(scope)
        except Problem as problem:
            await problem_response(problem, scope)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def take_path_of_target(scope: Scope) -> None:
    """Replace an absolute-form request target (RFC 9112, 3.2.2) in the scope by its path and host."""
    target: bytes = scope.get("raw_path") or b""
    if not target.lower().startswith(ADDRESSES):
        return
    host, slash, path = target.partition(b"://")[2].partition(b"/")
    scope["raw_path"] = slash + path or b"/"
    scope["path"] = unquote(scope["raw_path"].decode("latin-1"))
    host = host.rpartition(b"@")[2]  # without user information
    scope["headers"] = [(b"host", host), *(header for header in scope["headers"] if header[0] != b"host")]


def check_head(scope: Scope) -> None:
    """BadRequest where a request has two lengths, of which a proxy may have used the other, or too long a head;
    UnsupportedEncoding where its body is compressed."""
    headers, names = scope["headers"], {name for name, _ in scope["headers"]}
    length = (
        len(scope.get("raw_path") or b"") + len(scope["query_string"]) + sum(len(n) + len(v) + 4 for n, v in headers)
    )
    if length > MAX_HEAD_BYTES:
        raise BadRequest(f"The address and headers of a request may take {MAX_HEAD_BYTES} bytes.")
    if any(name == b"content-encoding" and value.lower() != b"identity" for name, value in headers):
        raise UnsupportedEncoding("Send the body as it is, without Content-Encoding.")
    if {b"content-length", b"transfer-encoding"} <= names:
        raise BadRequest(
            "The request has both Content-Length and Transfer-Encoding; send one of them.",
            headers={"Connection": "close"},
        )


def without_body(send: Send) -> Send:
    """`send` for an answer to HEAD, which passes the headers and an empty body.

    An event stream then sees its client disconnect, and ends.
    """
    ended = False

    async def send_head(message: Message) -> None:
        nonlocal ended
        if message["type"] != "http.response.body":
            await send(message)
        elif not ended:
            ended = True
            await send({"type": "http.response.body", "body": b""})

    return send_head
