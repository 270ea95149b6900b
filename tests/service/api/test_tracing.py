"""Traces go to the collector that settings name, hold no question and no key, and are off otherwise."""

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from service.api.tracing import Tracing
from service.auth.api_keys import create_key
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
from service.errors import Misconfigured
from service.settings import Settings
from tests.support.library import NOW, Library, two_coloured
from tests.support.web_app import Api

KEY, STORED = create_key("one", Permission.ADMIN, NOW)
ASKED = "zebracrossing"


class Collector(BaseHTTPRequestHandler):
    """Keeps what is sent to it."""

    received: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        self.received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[HTTPServer]:
    handler = type("Handler", (Collector,), {"received": []})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def traced(folder: Path, **settings: Any) -> None:
    """Some requests to a service, which then ends."""
    library = Library(folder)
    library.add("first", two_coloured("red", "red"))
    change_keys(folder / "keys.json", lambda keys: [STORED])
    api = Api(library, **settings)
    headers = {"Authorization": f"Bearer {KEY}"}
    api.request("POST", "/search/text", json={"query": f"red {ASKED}"}, headers=headers)
    api.request("GET", f"/tags?q={ASKED}", headers=headers)
    api.request("GET", "/tags")
    api.close()
    library.close()


def test_a_request_is_a_span_with_its_route_status_and_stages_and_no_question(
    tmp_path: Path, collector: HTTPServer
) -> None:
    traced(tmp_path, otlp_endpoint=f"http://127.0.0.1:{collector.server_port}/")
    received: list[tuple[str, bytes]] = collector.RequestHandlerClass.received  # type: ignore[attr-defined]
    assert {path for path, _ in received} == {"/v1/traces"}
    spans: list[Any] = []
    for _, body in received:
        request = ExportTraceServiceRequest.FromString(body)
        spans += [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
        text = str(request)
        assert ASKED not in text
        assert KEY.split("_", 2)[2] not in text
        assert "regard" in text
    attributes = [(span.name, {one.key: one.value for one in span.attributes}) for span in spans]
    statuses = [
        (name, said["http.response.status_code"].int_value)
        for name, said in attributes
        if "http.response.status_code" in said
    ]
    assert ("POST /search/text", 200) in statuses
    assert 401 in {status for _, status in statuses}
    assert any("regard.search.rerank_ms" in said for _, said in attributes)


def test_nothing_is_traced_unless_it_is_asked_for(
    tmp_path: Path, collector: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    traced(tmp_path)
    assert collector.RequestHandlerClass.received == []  # type: ignore[attr-defined]


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(Misconfigured, match=r"\.\[tracing\]"):
        Tracing.from_settings(Settings(otlp_endpoint="http://127.0.0.1:1"))
    assert Tracing.from_settings(Settings()).provider is None
