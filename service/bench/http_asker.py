"""A minimal HTTP client for searches that uses little CPU time.

It shares the processors with the measured service, so it parses only what Regard sends, a status, a content length and
a body, while `http.client` parses all headers like those of a mail.
"""

import json
import re
import socket
from http import HTTPStatus

from service.this_machine import LOOPBACK

TIMEOUT_S = 60.0
READ_BYTES = 2**16
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class HttpAsker:
    """Searches for the ten best pictures, over one connection or, without `keep`, over a new one each time."""

    def __init__(self, port: int, candidates: int, keep: bool = True) -> None:
        self._port, self._candidates, self._keep = port, candidates, keep
        self._connection: socket.socket | None = None

    def __call__(self, sentence: str) -> None:
        """Search, and read the answer. OSError if there is none, or the request is refused."""
        body = json.dumps({"query": sentence, "k": 10, "shortlist": self._candidates}).encode()
        is_old = self._connection is not None
        try:
            status = self._exchange(body)
        except ConnectionError:
            if not is_old:
                raise
            status = self._exchange(body)  # the service had closed the idle connection between two turns
        if not self._keep:
            self.close()
        if status != HTTPStatus.OK:
            raise OSError(f"status {status}")

    def close(self) -> None:
        """Close the connection; the next search opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, body: bytes) -> int:
        """The status of the answer to a request body. Closes the connection after an error."""
        try:
            connection = self._connection or self._connect()
            connection.sendall(self._head(len(body)) + body)
            return read_answer(connection)
        except OSError:
            self.close()
            raise

    def _connect(self) -> socket.socket:
        self._connection = socket.create_connection((LOOPBACK, self._port), timeout=TIMEOUT_S)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._connection

    def _head(self, length: int) -> bytes:
        lines = [
            "POST /search/text HTTP/1.1",
            f"Host: {LOOPBACK}:{self._port}",
            "Content-Type: application/json",
            f"Content-Length: {length}",
            *([] if self._keep else ["Connection: close"]),
        ]
        return "\r\n".join([*lines, "", ""]).encode("ascii")


def read_answer(connection: socket.socket) -> int:
    """Read one answer and return its status. ConnectionError if the connection ends early, or the answer is invalid."""
    received = b""
    while (end := received.find(b"\r\n\r\n")) < 0:
        received += _read(connection)
    head = received[: end + 2]
    status, length = STATUS.match(head), LENGTH.search(head)
    if status is None or length is None:
        raise ConnectionError(f"no answer with a length: {head[:80]!r}")
    missing = end + 4 + int(length[1]) - len(received)
    while missing > 0:
        missing -= len(_read(connection))
    return int(status[1])


def _read(connection: socket.socket) -> bytes:
    if received := connection.recv(READ_BYTES):
        return received
    raise ConnectionError("the connection was closed before the answer was complete")
