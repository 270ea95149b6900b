"""Connections of the web server that end: those too many, those that send or read too slowly.

uvicorn waits without end for the rest of a request's head or body, and for a client to read its answer. Its protocol is
extended by deadlines here, and answers beyond the bound on connections before it reads anything.
"""

import asyncio
import json
import logging
import resource
import socket
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from types import FrameType
from typing import Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.errors import BadRequest, Overloaded, Problem, SlowRequest
from service.processes.shared_port import SharedPort
from service.settings import MAX_HEAD_BYTES, Settings

KEEP_ALIVE_S = 15
SHUTDOWN_TIMEOUT_S = 10  # that requests in progress get when the server is told to end
SLOWEST = 1024  # bytes a second, on average over the time after which a body, or an answer, counts as stalled
REFUSED_RETRY_S = 2
LINGER_S = 1.0  # that a client who still sends gets to read why it is refused
RESERVED_FILES = 256  # handles for the catalog, views, originals and decoding processes
FEWEST_CONNECTIONS = 16

log = logging.getLogger(__name__)


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with a bound on connections and deadlines for the head, the body and the answer of a request."""

    max_connections: ClassVar[int]
    header_timeout_s: ClassVar[float]
    stall_timeout_s: ClassVar[float]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._body_bytes = 0
        self._unread = 0  # bytes of an answer, when its time began
        self._refused = False

    @staticmethod
    def tell_open(count: int) -> None:
        """Tell whom it concerns how many connections are open, whenever that changes."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, or answer 503 at once where too many connections are open."""
        super().connection_made(transport)
        # All that the client has not taken counts as unread, however little: a connection is closed once all is taken.
        transport.set_write_buffer_limits(high=0)
        self.tell_open(len(self.connections))
        if len(self.connections) > self.max_connections:
            log.warning("more than %d connections are open: refused another one", self.max_connections)
            self._refuse(Overloaded("Too many connections are open; try again shortly.", retry_after=REFUSED_RETRY_S))
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End, with every deadline."""
        for timer in (self._head_timer, self._body_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        self.tell_open(len(self.connections))

    def data_received(self, data: bytes) -> None:
        """Read on; a deadline begins with the first bytes of a head, and is not moved by the next ones."""
        if self._refused:
            return
        self._body_bytes += len(data)
        if self.conn.their_state is h11.IDLE and self._head_timer is None:
            self._await_head()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._end_head()

    def handle_events(self) -> None:
        """Handle what has come in; a body has a deadline from then on until it is complete."""
        super().handle_events()
        is_incomplete = self.conn.their_state is h11.SEND_BODY
        if is_incomplete and self._body_timer is None:
            self._body_bytes = 0
            self._body_timer = self.loop.call_later(self.stall_timeout_s, self._check_body)
        elif not is_incomplete and self._body_timer is not None:  # or the next request's body would have what is left
            self._body_timer.cancel()
            self._body_timer = None

    def pause_writing(self) -> None:
        """Wait for the client to read, for a time."""
        super().pause_writing()
        if self._write_timer is None:
            self._await_reading()

    def resume_writing(self) -> None:
        """Go on, since the client has read."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: whoever sends a header Upgrade is answered as if it were not there (RFC 9110, 7.8), and uvicorn
        would have a library installed for it."""

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.header_timeout_s, self._end_incomplete_head)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_incomplete_head(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self._refuse(SlowRequest(f"The head of a request must come within {self.header_timeout_s:g} s."))

    def _check_body(self) -> None:
        self._body_timer = None
        if self.conn.their_state is not h11.SEND_BODY or self.transport.is_closing():
            return
        received, self._body_bytes = self._body_bytes, 0
        # A body that waits for the server to take it is not the client's fault.
        if received < SLOWEST * self.stall_timeout_s and not self.flow.read_paused:
            self._refuse(SlowRequest("The body of the request came too slowly; send it again."))
            return
        self._body_timer = self.loop.call_later(self.stall_timeout_s, self._check_body)

    def _await_reading(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._write_timer = self.loop.call_later(self.stall_timeout_s, self._check_reading)

    def _check_reading(self) -> None:
        self._write_timer = None
        if self._unread - self.transport.get_write_buffer_size() < SLOWEST * self.stall_timeout_s:
            self.transport.abort()
        else:
            self._await_reading()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP/1.1, and close once the client has had time to read the answer."""
        detail = f"This is no HTTP/1.1 request, or its address and headers take more than {MAX_HEAD_BYTES} bytes."
        self._refuse(BadRequest(detail), LINGER_S)

    def _refuse(self, problem: Problem, linger_s: float = 0) -> None:
        """Answer, unless an answer has begun, and close: what the application did for this request is cancelled.

        A connection that is closed while the client sends is reset, and the answer may be lost with it.
        """
        self._refused = True
        self._end_head()
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(refusal(problem))
        if linger_s and self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
            self.loop.call_later(linger_s, self.transport.close)
        else:
            self.transport.close()


def refusal(problem: Problem) -> bytes:
    """A whole answer with a problem document, for where no application is asked."""
    body = json.dumps(problem.document("urn:regard:request:unknown")).encode()
    head = [
        f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in problem.headers.items()),
        "Connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode("ascii") + body


class ToldServer(uvicorn.Server):
    """A server that tells when it listens, and when a signal has asked it to end."""

    def __init__(
        self, config: uvicorn.Config, listens: Callable[[], None], ends: Callable[[], None], shared: SharedPort | None
    ) -> None:
        """Where other processes listen on the same socket, its connections come from `shared`."""
        super().__init__(config)
        self._listens, self._ends, self._shared = listens, ends, shared
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets if self._shared is None else [])
        if self._shared is not None:
            self._shared.start(self._serve_connection)
        self._listens()

    async def _serve_connection(self, connection: socket.socket) -> None:
        """Serve a connection as those that uvicorn accepts itself."""
        state = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        protocol: Callable[[], asyncio.Protocol] = partial(self.config.http_protocol_class, **state)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)
        except OSError:  # it is gone already
            connection.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and end when those that are open are answered."""
        if self._shared is not None:
            self._shared.stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end: requests in progress are still answered."""
        if self._loop is not None:  # which tells: what a handler interrupts may hold locks that telling waits for
            self._loop.call_soon_threadsafe(self._ends)
        super().handle_exit(sig, frame)


def web_server(
    app: Any,
    settings: Settings,
    listens: Callable[[], None] = lambda: None,
    ends: Callable[[], None] = lambda: None,
    shared: SharedPort | None = None,
) -> uvicorn.Server:
    """A server of the application within the limits that settings name; it runs on a socket that is bound already.

    `listens` is called once it takes connections, `ends` when a signal asks it to end. With `shared` the socket is
    another process's too.
    """

    class Protocol(LimitedProtocol):
        max_connections = connection_limit(settings.max_connections)
        header_timeout_s = settings.header_timeout_s
        stall_timeout_s = settings.stall_timeout_s

        @staticmethod
        def tell_open(count: int) -> None:
            if shared is not None:
                shared.tell_open(count)

    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        loop="asyncio",
        log_config=None,
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        server_header=False,
        proxy_headers=False,
    )
    return ToldServer(config, listens, ends, shared)


def connection_limit(wanted: int) -> int:
    """The number of connections that may be open: as many as wanted, as far as this process's file handles allow.

    The soft limit on handles is raised to the hard one first: a server without handles can accept nothing and read
    nothing.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return wanted
    most = max(FEWEST_CONNECTIONS, hard - RESERVED_FILES, hard // 4)
    if most < wanted:
        log.warning("%d file handles allow %d connections, not %d: raise the limit (ulimit -n)", hard, most, wanted)
    return min(wanted, most)
