"""What is answered while models are loaded, and who answers next."""

import socket
import threading

import pytest

from service.processes.startup_answers import answered_while_loading
from service.serve import base_url, listening_socket
from service.settings import Settings
from tests.support import patient


def test_whoever_asks_is_told_that_models_are_loaded() -> None:
    with (
        listening_socket("127.0.0.1", 0) as listening,
        answered_while_loading(listening, Settings()),
        patient.client(base_url=base_url(listening)) as client,
    ):
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["detail"]) == (503, "loading")
        assert ready.json()["checks"] == {"model": "loading"}
        assert client.get("/livez").json() == {"status": "alive"}
        for answer in (client.get("/images"), client.post("/search/text", json={"query": "red"})):
            assert answer.status_code == 503
            assert answer.headers["content-type"] == "application/problem+json"
            assert int(answer.headers["retry-after"]) > 0
            assert answer.json()["type"] == "urn:regard:problem:not-ready"
            assert "loading its models" in answer.json()["detail"]
        assert client.head("/images").status_code == 503
        assert client.get("/images").json()["retry_after"] > 0
        page = client.get("/", headers={"sec-fetch-mode": "navigate"})
        assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
        assert "loading its models" in page.text
        assert "location.reload()" in page.text


def test_nobody_is_turned_away_between_loading_and_serving() -> None:
    with listening_socket("127.0.0.1", 0) as listening:
        with answered_while_loading(listening, Settings()):
            pass
        with socket.create_connection(listening.getsockname()) as waiting:  # nobody answers now
            waiting.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with answered_while_loading(listening, Settings()):
                assert waiting.recv(100).startswith(b"HTTP/1.1 200")


def test_a_failure_ends_the_answers_too() -> None:
    with listening_socket("127.0.0.1", 0) as listening:
        with pytest.raises(KeyError), answered_while_loading(listening, Settings()):
            raise KeyError("no weights")
        assert not [thread for thread in threading.enumerate() if thread.name == "loading"]
