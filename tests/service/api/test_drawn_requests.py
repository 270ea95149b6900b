"""Requests drawn from the OpenAPI document get no fault of the server, and no answer that it does not tell of.

REGARD_CASES=10000 asks for more than a daily run has time for.
"""

import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.support.api_cases import DOCUMENT, CaseRun, Known
from tests.support.running_server import running_server

CASES = int(os.environ.get("REGARD_CASES", "250"))
SEED = 3


@pytest.mark.slow
@pytest.mark.timeout(600 + CASES)
def test_no_request_is_answered_with_a_fault(tmp_path: Path) -> None:
    with running_server(tmp_path) as url:
        known = Known.of(url)
        run = CaseRun(url, known)
        run.run(CASES, SEED)
    assert run.statuses.total() >= CASES
    assert list(run.findings.values()) == []
    routes = {
        f"{method.upper()} {path}"
        for path, methods in json.loads(DOCUMENT.read_text(encoding="utf-8"))["paths"].items()
        for method in methods
    }
    assert {route for route, _ in run.statuses} == routes
    answered = {status for _, status in run.statuses}
    assert answered >= {200, 202, 404, 422}, "requests are all good, or none is"
    outside = [path for path in tmp_path.parent.iterdir() if path != tmp_path]
    assert [path for path in outside if path.name.endswith((".png", ".jpg"))] == []


class Broken(BaseHTTPRequestHandler):
    """Answers as a broken server does: 500, 418 or without a problem document, by the method."""

    def do_GET(self) -> None:
        self._answer(500, "application/problem+json")

    def do_DELETE(self) -> None:
        self._answer(418, "application/problem+json")

    def do_POST(self) -> None:
        self._answer(404, "text/plain")

    def do_PATCH(self) -> None:
        self.close_connection = True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer an address that is too long for this class, which alone comes here, as any other."""
        self._answer(500, "application/problem+json", read=False)

    def _answer(self, status: int, kind: str, read: bool = True) -> None:
        if read:
            self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def broken_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Broken) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_broken_server_is_found_out(broken_url: str) -> None:
    run = CaseRun(broken_url, Known(["0" * 32], ["job"]))
    run.run(26, 1)
    wrong = {
        (route.partition(" ")[0], words.partition(":")[0].partition(" but")[0])
        for (route, _), words in run.findings.items()
    }
    assert wrong == {
        ("GET", "500"),
        ("DELETE", "418 is not told of"),
        ("POST", "404 is no problem document"),
        ("PATCH", "no answer"),
    }
