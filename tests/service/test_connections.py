"""Real sockets that send slowly, read slowly, or are too many: each ends, with a reason, and others go on."""

import asyncio
import contextlib
import itertools
import logging
import resource
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from service.errors import Overloaded
from service.processes import connections
from service.processes.connections import connection_limit, web_server
from service.serve import listening_socket
from service.settings import Settings
from tests.support.processes import wait_until

HEAD_S, STALL_S = 0.5, 0.5
PATIENT_S = 300.0  # where a client that this machine holds up must not be taken for a slow one
LARGE = b"x" * 2**20
SMALL = b"x" * 48 * 2**10  # less than asyncio waits for clients to take, more than the kernel takes in TINY_BUFFERS
TINY_BUFFERS = 4096
WHOLE_BYTES = 16 * 2**20


class App:
    """Answers with the number of bytes received; `/large` with more than any socket takes, `/small` with more than a
    tiny one does; notes who hung up."""

    def __init__(self) -> None:
        self.hung_up = threading.Event()
        self.answered = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        size, message = 0, {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            if message["type"] == "http.disconnect":
                self.hung_up.set()
                return
            size += len(message["body"])
        if scope["path"] == "/slow":
            await asyncio.sleep(3 * STALL_S)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"transfer-encoding", b"chunked")]})
        for _ in range(200 if scope["path"] == "/large" else 0):
            await send({"type": "http.response.body", "body": LARGE, "more_body": True})
        if scope["path"] == "/whole":  # handed over at once
            await send({"type": "http.response.body", "body": b"x" * WHOLE_BYTES, "more_body": True})
        if scope["path"] == "/small":
            await send({"type": "http.response.body", "body": SMALL, "more_body": True})
        await send({"type": "http.response.body", "body": str(size).encode()})
        self.answered.set()


@pytest.fixture
def app() -> App:
    return App()


@contextlib.contextmanager
def serving(app: App, head_s: float = PATIENT_S, stall_s: float = STALL_S) -> Iterator[tuple[str, int]]:
    """The address of a server that waits so long for a head, and for a body or a reader that stalls."""
    settings = Settings(max_connections=4, header_timeout_s=head_s, stall_timeout_s=stall_s)
    with listening_socket("127.0.0.1", 0) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, TINY_BUFFERS)
        server = web_server(app, settings)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        wait_until(lambda: server.started)
        try:
            yield listening.getsockname()[:2]
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def address(app: App) -> Iterator[tuple[str, int]]:
    with serving(app) as served:
        yield served


@pytest.fixture
def impatient_address(app: App) -> Iterator[tuple[str, int]]:
    """A server that does not wait for heads either."""
    with serving(app, head_s=HEAD_S) as served:
        yield served


@contextlib.contextmanager
def connected(address: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.create_connection(address) as client:
        yield client


def everything(client: socket.socket) -> bytes:
    """The bytes that come until the server closes."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(65536):
            received += piece
    return received


def whole_answer(client: socket.socket) -> bytes:
    """The bytes up to the end of one answer in chunks."""
    received = b""
    while not received.endswith(b"0\r\n\r\n"):
        piece = client.recv(65536)
        assert piece, received
        received += piece
    return received


def answer_to_drops(client: socket.socket, drops: Iterable[bytes]) -> bytes:
    """The first bytes that come while these are sent one after the other."""
    for drop in drops:
        try:
            client.sendall(drop)
        except ConnectionError:  # it closed before it had read the one before; what it said is there all the same
            return everything(client)
        with contextlib.suppress(TimeoutError):
            return client.recv(1000)
    return b""


GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_who_asks_for_another_protocol_is_answered_in_this_one_and_not_logged(
    address: tuple[str, int], protocol: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with connected(address) as client:
        client.sendall(GET[:-2] + b"Connection: Upgrade\r\nUpgrade: %s\r\n\r\n" % protocol)
        assert whole_answer(client).startswith(b"HTTP/1.1 200 ")
    assert caplog.text == ""


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: loc", b"POST / HTTP/1.1\r\nContent-Length: 5\r\n"])
def test_a_head_that_is_never_complete_ends_the_connection(impatient_address: tuple[str, int], sent: bytes) -> None:
    with connected(impatient_address) as client:
        client.sendall(sent)
        answer = everything(client)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"application/problem+json" in answer


def test_a_head_that_drips_ends_the_connection(impatient_address: tuple[str, int]) -> None:
    with connected(impatient_address) as client:
        client.settimeout(HEAD_S / 10)
        head = b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000
        answer = answer_to_drops(client, (bytes([byte]) for byte in head))
    assert b" 408 " in answer


def test_a_second_request_on_a_connection_has_its_own_time(app: App) -> None:
    with serving(app, head_s=4 * HEAD_S) as address, connected(address) as client:
        client.sendall(GET)
        first = whole_answer(client)
        client.sendall(GET[:20])
        assert b" 408 " in everything(client)
    assert first.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("path", [b"/", b"/slow"])
def test_a_body_that_stalls_ends_the_request_and_the_application_hears_of_it(
    address: tuple[str, int], app: App, path: bytes
) -> None:
    with connected(address) as client:
        client.sendall(POST.replace(b" / ", b" " + path + b" ") % 10_000 + b"x" * 100)
        assert b" 408 " in everything(client)
    assert app.hung_up.wait(60)


def test_a_body_that_drips_ends_the_request(address: tuple[str, int], app: App) -> None:
    with connected(address) as client:
        client.sendall(POST % 10**9)
        client.settimeout(STALL_S / 10)
        answer = answer_to_drops(client, itertools.repeat(b"x"))
    assert b" 408 " in answer
    assert app.hung_up.wait(60)


def test_a_body_that_came_leaves_no_deadline_to_the_next_request(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[None] = []
    monkeypatch.setattr(connections.LimitedProtocol, "_check_body", lambda _: looks.append(None))
    with connected(address) as client:
        client.sendall(POST % 10 + b"hello")
        time.sleep(STALL_S / 10)  # so that it is seen incomplete
        client.sendall(b"world")
        whole_answer(client)
        looks.clear()
        time.sleep(2 * STALL_S)
    assert looks == []


@pytest.mark.slow
def test_an_application_that_takes_its_time_is_not_the_clients_fault(address: tuple[str, int]) -> None:
    with connected(address) as client:
        client.sendall((POST % 5).replace(b"POST /", b"POST /slow") + b"hello")
        answer = whole_answer(client)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"\r\n5\r\n" in answer


def test_a_client_that_reads_nothing_is_let_go(address: tuple[str, int], app: App) -> None:
    with connected(address) as client:
        client.sendall(GET.replace(b"/ ", b"/large "))
        assert app.answered.wait(60)  # the application is not held by what nobody reads
        assert len(everything(client)) < 200 * len(LARGE)


@pytest.mark.slow
def test_a_client_that_reads_slowly_gets_all_of_an_answer(app: App) -> None:
    stall_s = 4 * STALL_S  # longer than this machine may hold up one who reads
    with serving(app, stall_s=stall_s) as address, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        client.connect(address)
        client.sendall(GET.replace(b"/ ", b"/whole "))
        received, begun, end = 0, time.monotonic(), b""
        while end != b"0\r\n\r\n":
            piece = client.recv(2**16)
            assert piece, f"cut off after {received} bytes"
            received, end = received + piece.count(b"x"), (end + piece)[-5:]
            if time.monotonic() < begun + 2 * stall_s:  # slower than it could, and never still
                time.sleep(0.02)
        assert received == WHOLE_BYTES


def test_clients_that_leave_the_end_of_an_answer_unread_hold_no_connection(address: tuple[str, int]) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, TINY_BUFFERS)
            client.connect(address)
            client.sendall(GET.replace(b"/ ", b"/small "))
        wait_until(lambda: status_of(address) == b"200")


def status_of(address: tuple[str, int]) -> bytes:
    """The status that a new connection is answered with; nothing where it is reset."""
    with connected(address) as client, contextlib.suppress(ConnectionError):
        client.sendall(GET)
        return client.recv(65536)[9:12]
    return b""


def test_connections_over_the_bound_are_told_to_come_back(address: tuple[str, int]) -> None:
    with contextlib.ExitStack() as stack:
        open_ones = [stack.enter_context(connected(address)) for _ in range(4)]
        for client in open_ones:
            client.sendall(GET[:-2])
        over = stack.enter_context(connected(address))
        answer = everything(over)
        assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"\r\nRetry-After: " in answer
        open_ones[0].sendall(GET[-2:])
        assert open_ones[0].recv(1000).startswith(b"HTTP/1.1 200")
    with connected(address) as client:  # as soon as others have gone
        client.sendall(GET)
        assert client.recv(12) in (b"HTTP/1.1 200", b"HTTP/1.1 503")


def test_idle_connections_make_room_for_new_ones_the_longest_idle_first(address: tuple[str, int]) -> None:
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(6):
            clients.append(stack.enter_context(connected(address)))
            clients[-1].sendall(GET)
            assert whole_answer(clients[-1]).startswith(b"HTTP/1.1 200")
        for ended in clients[:2]:
            assert ended.recv(1) == b""
        for kept in clients[2:]:
            kept.sendall(GET)
            assert whole_answer(kept).startswith(b"HTTP/1.1 200")


def test_a_head_of_endless_length_is_refused(address: tuple[str, int]) -> None:
    with connected(address) as client:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(b"GET / HTTP/1.1\r\nX: " + b"y" * 2**17)
        assert b" 400 " in everything(client)


def test_few_file_handles_mean_few_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = [(1024, 1024)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: limits.append(both))
    assert connection_limit(512) == 512
    assert connection_limit(2000) == 768
    limits[:] = [(256, 256)]
    with caplog.at_level(logging.WARNING):
        assert connection_limit(512) == 64
    assert "256 file handles" in caplog.text
    limits[:] = [(256, 4096)]
    assert connection_limit(512) == 512
    assert limits[-1] == (4096, 4096)


def test_a_refusal_is_one_whole_answer() -> None:
    head, _, body = connections.refusal(Overloaded("Too many.", retry_after=2)).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"Connection: close" in head


@pytest.mark.parametrize("head", [b"GET /" + b"x" * 500_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", b"nonsense\r\n\r\n"])
def test_what_is_no_request_is_told_so_also_while_it_is_being_sent(address: tuple[str, int], head: bytes) -> None:
    with socket.create_connection(address, 10) as connection:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(head)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n")
    assert answer.endswith(b"}")
    assert b"no HTTP/1.1 request, or its address and headers take more than 32768 bytes" in answer
