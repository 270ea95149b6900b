"""The benchmark's client against a server that answers as it is told: whole, in pieces, refused, not at all."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from service.bench.http_asker import HttpAsker

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 4\r\n\r\nfour"
REFUSED = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class ScriptedServer:
    """Answers the questions of each connection with pieces of bytes, then closes it."""

    def __init__(self) -> None:
        self.connections = list[list[list[bytes]]]()
        self.heads: list[bytes] = []
        self.queries: list[dict[str, object]] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def serve(self, *connections: list[list[bytes]]) -> int:
        """Begin; the port. Each connection is a list of answers, each answer its pieces."""
        self.connections.extend(connections)
        self._thread.start()
        return self.port

    def close(self) -> None:
        """End once every connection was served."""
        self._thread.join(10)
        self._listening.close()

    def _serve(self) -> None:
        for answers in self.connections:
            connection, _ = self._listening.accept()
            with connection, connection.makefile("rb") as reader:
                for pieces in answers:
                    head = b"".join(iter(reader.readline, b"\r\n"))
                    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                    self.heads.append(head)
                    self.queries.append(json.loads(reader.read(length)))
                    for piece in pieces:
                        connection.sendall(piece)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with closing(ScriptedServer()) as made:
        yield made


def test_a_connection_is_kept_and_answers_come_in_pieces(server: ScriptedServer) -> None:
    port = server.serve([[ANSWER], [ANSWER[:9], ANSWER[9:60], ANSWER[60:]], [ANSWER]])
    with closing(HttpAsker(port, 20)) as ask:
        for sentence in ("a dog", "a cät", "a car"):
            ask(sentence)
    assert server.queries == [{"query": text, "k": 10, "shortlist": 20} for text in ("a dog", "a cät", "a car")]
    assert all(head.startswith(b"POST /search/text HTTP/1.1\r\n") for head in server.heads)


def test_a_connection_that_the_server_closed_is_opened_again(server: ScriptedServer) -> None:
    port = server.serve([[ANSWER]], [[ANSWER]])
    with closing(HttpAsker(port, 20)) as ask:
        ask("a dog")
        ask("a cat")
    assert [query["query"] for query in server.queries] == ["a dog", "a cat"]


def test_new_connections_say_that_they_end(server: ScriptedServer) -> None:
    port = server.serve([[ANSWER]], [[ANSWER]])
    with closing(HttpAsker(port, 20, keep=False)) as ask:
        ask("a dog")
        ask("a cat")
    assert all(b"\r\nConnection: close\r\n" in head for head in server.heads)


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([REFUSED], "status 503"),
        ([b"HTTP/1.1 200 OK\r\n\r\n"], "no answer with a length"),
        ([b"SSH-2.0-OpenSSH\r\nContent-Length: 1\r\n\r\n"], "no answer"),
        ([ANSWER[:-1]], "before the answer was complete"),
        ([], "closed|reset"),
    ],
)
def test_what_is_no_answer_is_an_error(server: ScriptedServer, pieces: list[bytes], message: str) -> None:
    port = server.serve([pieces])
    with closing(HttpAsker(port, 20)) as ask, pytest.raises(OSError, match=message):
        ask("a dog")
