"""A server that is busy a few times before it answers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

RECEIPT = b'{"job_id": "1", "status_url": "/jobs/1", "accepted": [], "rejected": []}'
NO_FAILURES = b'{"failures": [], "next": null}'


class Busy(BaseHTTPRequestHandler):
    """Answers with the `statuses` in order, then always with 200; records the request bodies."""

    statuses: list[int]
    headers_sent: dict[str, str]
    bodies: list[bytes]

    def do_POST(self) -> None:
        self.answer(RECEIPT)

    def do_GET(self) -> None:
        self.answer(NO_FAILURES)

    def answer(self, content: bytes) -> None:
        """Note the body, and answer."""
        self.bodies.append(self.rfile.read(int(self.headers.get("content-length", 0))))
        self.send_response(self.statuses.pop(0) if self.statuses else 200)
        for name, value in self.headers_sent.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def busy_server(statuses: list[int], **headers: str) -> Iterator[tuple[str, list[bytes]]]:
    """The address of such a server and the list of request bodies, until the block ends."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    bodies: list[bytes] = []
    handler = type("Handler", (Busy,), {"statuses": list(statuses), "headers_sent": named, "bodies": bodies})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", bodies
        finally:
            server.shutdown()
            thread.join()
