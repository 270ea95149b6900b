"""The package as a whole: complete, generated where it says so, and light."""

import asyncio
import inspect
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import httpx
import pytest

from generate_answers import written
from generate_client import waiting_client
from regard_client import AsyncClient, Client, Picture, UnexpectedAnswer, answers, version
from regard_client.options import SimilarSearchOptions, TextSearchOptions
from tests.support.either_client import settled
from tests.support.project_files import ROOT

PACKAGE = ROOT / "clients" / "python"
OPENAPI: dict[str, Any] = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
ROUTES = {f"{method.upper()} {path}" for path, methods in OPENAPI["paths"].items() for method in methods}
LEFT_OUT = {
    "GET /jobs/{job_id}/events": "`follow` tells the same without holding a connection",
    "GET /metrics": "for Prometheus, in its format",
    "POST /images/archive/ticket": "for browsers, which send no key with a form; `archive` sends it",
    "GET /session": "sessions are for browsers; a program sends its key",
    "POST /session": "likewise",
    "DELETE /session": "likewise",
}
# Every method, with arguments, and the route that it asks.
ASKS: dict[str, tuple[tuple[Any, ...], str]] = {
    "search_text": (("red",), "POST /search/text"),
    "search_captions": ((b"x",), "POST /search/image"),
    "search_similar": ((b"x",), "POST /search/image"),
    "explain_png": (("1", "red"), "GET /images/{image_id}/explain.png"),
    "ingest": (([Picture(b"x", "x")],), "POST /ingest"),
    "upload": (([Picture(b"x", "x")],), "POST /ingest"),
    "job": (("1",), "GET /jobs/{job_id}"),
    "jobs": ((), "GET /jobs"),
    "follow": (("1",), "GET /jobs/{job_id}"),
    "wait": (("1",), "GET /jobs/{job_id}"),
    "failures": ((), "GET /failures"),
    "retry": (("1",), "POST /failures/{image_id}/retry"),
    "images": ((), "GET /images"),
    "images_page": ((), "GET /images"),
    "dates": ((), "GET /dates"),
    "tags": ((), "GET /tags"),
    "tags_page": ((), "GET /tags"),
    "info": (("1",), "GET /images/{image_id}/info"),
    "regions": (("1",), "GET /images/{image_id}/regions"),
    "picture": (("1",), "GET /images/{image_id}"),
    "original": (("1",), "GET /images/{image_id}/original"),
    "archive": ((["1"], "saved.zip"), "POST /images/archive"),
    "thumbnail": (("1",), "GET /images/{image_id}/thumbnail"),
    "deleted_thumbnail": (("1",), "GET /images/{image_id}/deleted-thumbnail"),
    "edit": (("1",), "PATCH /images/{image_id}"),
    "delete": (("1",), "DELETE /images/{image_id}"),
    "restore": (("1",), "POST /images/{image_id}/restore"),
    "models": ((), "GET /models"),
    "build": (("fake",), "POST /models/{name}/build"),
    "is_alive": ((), "GET /livez"),
    "ready": ((), "GET /readyz"),
}


def methods(kind: type) -> dict[str, Any]:
    """The public methods of a client, besides what closes it."""
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: method for name, method in found if not name.startswith("_") and name not in ("close", "aclose")}


def test_every_route_has_a_method_or_a_reason() -> None:
    assert {route for _, route in ASKS.values()} | set(LEFT_OUT) == ROUTES, (
        "a route gets a function in calls.py, a method in async_client.py (then `make docs`) and a place in ASKS, or a"
        " reason in LEFT_OUT"
    )
    assert set(ASKS) == set(methods(Client)), "list each method in ASKS"
    assert all(LEFT_OUT.values())


@pytest.mark.parametrize("name", ASKS)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_method_asks_its_route(
    name: str, kind: type[Client] | type[AsyncClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        return httpx.Response(200, json={})

    async def whole() -> None:
        client = kind(transport=httpx.MockTransport(answer))
        arguments, _ = ASKS[name]
        try:
            await settled(getattr(client, name)(*arguments))
        except UnexpectedAnswer:  # {} is what no route answers
            pass
        finally:
            close: Callable[[], object] = client.aclose if isinstance(client, AsyncClient) else client.close
            await settled(close())

    asyncio.run(whole())
    (one,) = asked
    wanted = ASKS[name][1]
    assert re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", re.escape(wanted).replace(r"\{", "{").replace(r"\}", "}")), one)


def test_one_client_is_written_from_the_other() -> None:
    module, source = (
        (PACKAGE / "regard_client" / name).read_text(encoding="utf-8") for name in ("client.py", "async_client.py")
    )
    assert module == waiting_client(source), "run `make docs`"
    assert list(methods(Client)) == list(methods(AsyncClient))


def test_a_text_that_is_not_found_is_not_passed_over() -> None:
    with pytest.raises(ValueError, match="0 times, not once"):
        waiting_client("class AsyncClient: ...")


def test_the_types_are_written_from_the_routes() -> None:
    module = (PACKAGE / "regard_client" / "answers.py").read_text(encoding="utf-8")
    assert module == written(OPENAPI), "run `make docs`"


def test_a_schema_that_has_no_type_is_not_passed_over() -> None:
    schemas = {
        "ImageAnswer": {"properties": {}, "description": "Either.", "type": "object"},
        "CaptionHit": {"properties": {}, "description": "One.", "type": "object"},
        "PictureHit": {"properties": {"a": {"type": "unheard of"}}, "description": "One.", "type": "object"},
    }
    with pytest.raises(ValueError, match="unheard of"):
        written({"components": {"schemas": schemas}})


def test_the_options_are_those_of_the_routes() -> None:
    body = OPENAPI["components"]["schemas"]["TextSearchRequest"]["properties"]
    assert set(get_type_hints(TextSearchOptions)) == set(body) - {"query"}
    form = OPENAPI["paths"]["/search/image"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert set(get_type_hints(SimilarSearchOptions)) == set(form["properties"]) - {"image", "image_id", "target"}


def test_the_edit_is_that_of_the_route() -> None:
    assert set(answers.PictureEdit.__optional_keys__) == {"captions", "tags", "taken_at", "filename"}


def test_importing_it_brings_nothing_of_the_server_along() -> None:
    program = "import json, sys, regard_client; print(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={"PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in json.loads(ran.stdout)}
    assert {"regard_client", "httpx"} <= loaded
    assert loaded.isdisjoint({"torch", "service", "models", "index", "pydantic", "numpy", "PIL", "fastapi"})


def test_it_asks_for_httpx_alone_and_has_the_version_of_the_server() -> None:
    own = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    server = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [re.match(r"[\w-]+", one)[0] for one in own["dependencies"]] == ["httpx"]  # type: ignore[index]
    assert own["dependencies"][0] in server["dependencies"]
    assert own["requires-python"] == server["requires-python"]
    assert server["version"] == version.VERSION
