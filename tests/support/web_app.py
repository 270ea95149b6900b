"""The web side as a test asks it: a real application over a Library, without a socket or a worker process."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import httpx
import PIL.Image
from pydantic import BaseModel

from service.api.app import create_app
from service.api.schemas.resources import ProblemAnswer
from service.api.services import Services, build_services
from service.model_loading import LoadedModels
from service.settings import Settings
from tests.support.library import NOW, Library

T = TypeVar("T")


class Web:
    """Sends requests one by one, or many at once through `together`."""

    def __init__(self, settings: Settings, loaded: LoadedModels, clock: Callable[[], float] = lambda: NOW) -> None:
        """Its clock stands at NOW where none is given."""
        self.times_woken = 0
        self.settings = settings
        self.services: Services = build_services(settings, loaded, self._wake, clock=clock)
        self.services.start()
        self.app = create_app(self.services)
        self._runner = asyncio.Runner()
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    def _wake(self) -> None:
        self.times_woken += 1

    def together(self, ask: Callable[[httpx.AsyncClient], Awaitable[T]]) -> T:
        """The result of a coroutine that uses the client."""

        async def run() -> T:
            return await ask(self.client)

        return self._runner.run(run())

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request's answer, by views as fresh as a moment's waiting would make them."""
        self.services.models.refresh()
        return self.together(lambda client: client.request(method, path, **options))

    def get(self, path: str, **query: Any) -> httpx.Response:
        """GET with a query string."""
        return self.request("GET", path, params=query)

    def text(self, query: Any, **fields: Any) -> httpx.Response:
        """POST /search/text, of the pictures alone unless `match` says otherwise."""
        return self.request("POST", "/search/text", json={"query": query, "match": "pictures", **fields})

    def close(self) -> None:
        """End everything that was started."""

        async def end() -> None:
            await self.client.aclose()
            await self.services.close()

        with self._runner:  # which is closed whatever that raises
            self._runner.run(end())


class Api(Web):
    """The web side over a Library."""

    def __init__(self, library: Library, **settings: Any) -> None:
        """`library.folder` is the data directory."""
        self.library = library
        loaded = LoadedModels.of(
            library.extractor,
            {model.name: model.matcher for model in library.models},
            views=[library.models.default.name],
        )
        patient = {"inspect_timeout_s": 60.0, **settings}
        super().__init__(Settings(data_dir=library.folder, decode_workers=1, **patient), loaded)


@contextmanager
def served(library: Library, **settings: Any) -> Iterator[Api]:
    """The web side over a library; at the end both are closed."""
    with closing(library), closing(Api(library, **settings)) as api:
        yield api


def checked(answer: httpx.Response, status: int, schema: type[BaseModel]) -> Any:
    """The JSON of an answer of that status that is what its schema says."""
    assert answer.status_code == status, answer.text
    schema.model_validate_json(answer.content)
    return answer.json()


def problem(answer: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    """The problem document of an answer of that status and type."""
    found: dict[str, Any] = checked(answer, status, ProblemAnswer)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] in found["instance"]
    assert (found["status"], found["type"]) == (status, f"urn:regard:problem:{kind}"), found
    return found


def png(picture: PIL.Image.Image) -> bytes:
    """The picture as a file."""
    content = io.BytesIO()
    picture.save(content, "PNG")
    return content.getvalue()
