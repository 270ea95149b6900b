"""Deadlines and bounds for connections of the web server: too many, too slow to send, or too slow to read.

uvicorn waits indefinitely for the rest of a request's head or body, and for a client to read its response. Its protocol
is extended here by deadlines, and by a refusal of connections beyond the limit before anything is read.
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

# Longer than proxies keep an idle connection (nginx 60, Traefik 90, Caddy 120): one that sends a request just as this
# end closes answers 502.
KEEP_ALIVE_S = 130
SHUTDOWN_TIMEOUT_S = 10  # for requests in progress when the server is told to end
SLOWEST = 1024  # bytes a second, averaged over the stall timeout, below which a body or response counts as stalled
REFUSED_RETRY_S = 2
LINGER_S = 1.0  # for a client that is still sending to read why it is refused
RESERVED_FILES = 256  # file descriptors for the catalog, views, originals and decoding processes
FEWEST_CONNECTIONS = 16

log = logging.getLogger(__name__)


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with a limit on connections, and deadlines for a request's head and body and for its response."""

    max_connections: ClassVar[int]
    header_timeout_s: ClassVar[float]
    stall_timeout_s: ClassVar[float]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._body_bytes = 0
        self._unread = 0  # bytes of a response that were unsent when its timer was started
        self._refused = False

    @staticmethod
    def tell_open(count: int) -> None:
        """Report the number of open connections whenever it changes."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, or respond with 503 at once where too many connections are open and none is idle."""
        super().connection_made(transport)
        # Any unsent byte counts as unread: a connection is closed only after the client has taken everything.
        transport.set_write_buffer_limits(high=0)
        self.tell_open(len(self.connections))
        if len(self.connections) > self.max_connections and not self._end_an_idle_one():
            log.warning("more than %d connections are open: refused another one", self.max_connections)
            self._refuse(Overloaded("Too many connections are open; try again shortly.", retry_after=REFUSED_RETRY_S))
            return
        self._await_head()

    def _end_an_idle_one(self) -> bool:
        """Close the connection that has waited longest for another request; False if none does."""
        waiting = [
            (timer.when(), one)
            for one in self.connections
            if isinstance(one, LimitedProtocol)
            and (timer := one.timeout_keep_alive_task) is not None
            and not one.transport.is_closing()
        ]
        if waiting:
            min(waiting, key=lambda each: each[0])[1].timeout_keep_alive_handler()
        return bool(waiting)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection and cancel all deadlines."""
        for timer in (self._head_timer, self._body_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        self.tell_open(len(self.connections))

    def data_received(self, data: bytes) -> None:
        """Process received bytes. A head's deadline starts with its first bytes, and later ones do not extend it."""
        if self._refused:
            return
        self._body_bytes += len(data)
        if self.conn.their_state is h11.IDLE and self._head_timer is None:
            self._await_head()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._end_head()

    def handle_events(self) -> None:
        """Handle received events; an incomplete body has a deadline from here on."""
        super().handle_events()
        is_incomplete = self.conn.their_state is h11.SEND_BODY
        if is_incomplete and self._body_timer is None:
            self._body_bytes = 0
            self._body_timer = self.loop.call_later(self.stall_timeout_s, self._check_body)
        elif not is_incomplete and self._body_timer is not None:  # otherwise the next request's body would inherit it
            self._body_timer.cancel()
            self._body_timer = None

    def pause_writing(self) -> None:
        """Wait for the client to read, up to a deadline."""
        super().pause_writing()
        if self._write_timer is None:
            self._await_reading()

    def resume_writing(self) -> None:
        """Continue, since the client has read."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: the header Upgrade is ignored (RFC 9110, 7.8), while uvicorn would advise to install a library
        for it."""

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
        # If the server itself has paused reading, the client is not to blame.
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
        """Respond to malformed HTTP/1.1, and close once the client has had time to read the response."""
        detail = f"This is no HTTP/1.1 request, or its address and headers take more than {MAX_HEAD_BYTES} bytes."
        self._refuse(BadRequest(detail), LINGER_S)

    def _refuse(self, problem: Problem, linger_s: float = 0) -> None:
        """Respond, unless a response has begun, and close; the application's work on this request is cancelled.

        Closing while the client is still sending resets the connection, which may lose the response.
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
    """A complete response with a problem document, without the application."""
    body = json.dumps(problem.document("urn:regard:request:unknown")).encode()
    head = [
        f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in problem.headers.items()),
        "Connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode("ascii") + body


class NotifyingServer(uvicorn.Server):
    """A server that calls back when it listens, and when a signal asks it to end."""

    def __init__(
        self, config: uvicorn.Config, listens: Callable[[], None], ends: Callable[[], None], shared: SharedPort | None
    ) -> None:
        """If other processes listen on the same socket, its connections come from `shared`."""
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
        """Serve a connection like those that uvicorn accepts itself."""
        state = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        protocol: Callable[[], asyncio.Protocol] = partial(self.config.http_protocol_class, **state)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)
        except OSError:  # already closed
            connection.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and end when the open ones are answered."""
        if self._shared is not None:
            self._shared.stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end: requests in progress are still answered."""
        if self._loop is not None:  # not in the handler: the code that it interrupts may hold locks that `ends` needs
            self._loop.call_soon_threadsafe(self._ends)
        super().handle_exit(sig, frame)


def web_server(
    app: Any,
    settings: Settings,
    listens: Callable[[], None] = lambda: None,
    ends: Callable[[], None] = lambda: None,
    shared: SharedPort | None = None,
) -> uvicorn.Server:
    """A server for the application, with the limits in the settings, for a socket that is already bound.

    `listens` is called once it accepts connections, `ends` when a signal asks it to end. With `shared`, other processes
    share the socket.
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
    return NotifyingServer(config, listens, ends, shared)


def connection_limit(wanted: int) -> int:
    """The number of connections that may be open: `wanted`, or fewer if the file descriptors of this process do not
    suffice.

    The soft limit on descriptors is first raised to the hard one: a server without descriptors can neither accept nor
    read.
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
