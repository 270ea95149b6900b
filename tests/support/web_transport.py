"""The web side of a test as a transport, for what speaks to services by httpx."""

import httpx

from tests.support.web_app import Web


class WebTransport(httpx.BaseTransport):
    """Hands requests to a Web, one by one."""

    def __init__(self, web: Web) -> None:
        self._web = web

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer of the web side."""
        request.read()
        answer = self._web.request(
            request.method,
            str(request.url.copy_with(scheme="http", host="localhost", port=None)),
            content=request.content,
            headers={name: value for name, value in request.headers.items() if name != "host"},
        )
        headers = {name: value for name, value in answer.headers.items() if name != "content-encoding"}
        return httpx.Response(answer.status_code, headers=headers, content=answer.content)
