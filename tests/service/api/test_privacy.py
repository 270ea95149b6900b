"""Audit lines for requests that change something, and other log lines of requests; never what was asked, and no key."""

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.auth.api_keys import create_key
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
from service.cli.logs import OWN_LOGGERS, JsonFormatter, TextFormatter
from tests.support.library import NOW, Library, two_coloured
from tests.support.web_app import Api, png, served

ADMIN, STORED = create_key("the owner", Permission.ADMIN, NOW)
ASKED = "zebracrossing"  # words of a query, in every place where one may stand
HEADERS = {"Authorization": f"Bearer {ADMIN}"}


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Everything that is logged at the default level, in both formats."""
    stream, root = io.StringIO(), logging.getLogger()
    handlers = [logging.StreamHandler(stream), logging.StreamHandler(stream)]
    for handler, formatter in zip(handlers, (TextFormatter("api"), JsonFormatter("api")), strict=True):
        handler.setFormatter(formatter)
        root.addHandler(handler)
    own = {logging.getLogger(name): logging.INFO for name in OWN_LOGGERS}
    before = {logger: logger.level for logger in (root, *own)}
    for logger, level in {root: logging.WARNING, **own}.items():
        logger.setLevel(level)
    yield stream
    for logger, level in before.items():
        logger.setLevel(level)
    for handler in handlers:
        root.removeHandler(handler)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    library = Library(tmp_path)
    library.add("first", two_coloured("red", "red"), captions=["a wall"])
    change_keys(tmp_path / "keys.json", lambda keys: [STORED])
    with served(library) as api:
        yield api


def search(api: Api, query: str) -> int:
    return api.request("POST", "/search/text", json={"query": query}, headers=HEADERS).status_code


def test_queries_and_keys_are_not_written_down(api: Api, written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    assert search(api, ASKED) == 200
    picture = {"image": (f"{ASKED}.png", png(two_coloured("red", "blue")))}
    for fields in ({}, {"model": ASKED}, {"filter": f'{{"tags": {{"{ASKED}": 1}}}}'}, {"k": ASKED}, {ASKED: "1"}):
        api.request("POST", "/search/image", files=picture, data=fields, headers=HEADERS)
    for path in (f"/images?after={ASKED}", f"/images/{ASKED}", f"/{ASKED}", f"/images?q={ASKED}&key={ADMIN}"):
        api.request("GET", path, headers=HEADERS)
    api.request("POST", "/search/text", content=f'{{"query": "{ASKED}', headers=HEADERS)
    for error in (KeyError(ASKED), ValueError(f"no {ASKED}"), UnicodeError(ASKED)):

        def fail(*arguments: object, error: Exception = error) -> None:
            try:
                raise error
            except Exception as first:
                raise LookupError(ASKED) from first

        with monkeypatch.context() as broken:
            broken.setattr(api.library.matcher, "score", fail)
            assert search(api, f"{ASKED} {type(error).__name__}") == 500
    said = written.getvalue()
    assert ASKED not in said
    assert ADMIN.split("_", 2)[2] not in said
    # What is needed to mend it is there.
    assert "KeyError" in said
    assert "test_privacy.py" in said
    assert "POST /search/text failed" in said


def test_failures_of_the_machine_keep_their_message(
    api: Api, written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(api.library.matcher, "score", fail)
    assert search(api, ASKED) == 500
    assert "No space left on device" in written.getvalue()


def test_writes_and_deletes_leave_a_line_that_says_who_and_how_it_ended(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    image_id = api.request("GET", "/images", headers=HEADERS).json()["images"][0]["image_id"]
    upload = {"images": ("holiday of Ana.png", png(two_coloured("green", "blue")))}
    job = api.request("POST", "/ingest", files=upload, headers={**HEADERS, "x-request-id": "mine"}).json()["job_id"]
    api.request("DELETE", f"/images/{image_id}", headers=HEADERS)
    api.request("DELETE", "/images/x status=204%0aaudit forged", headers=HEADERS)
    api.request("POST", "/models/fake/build", headers=HEADERS)
    lines = [record for record in caplog.records if record.name == "regard.audit"]
    audits = [vars(record)["audit"] for record in lines]
    assert [(one["method"], one["route"], one["status"]) for one in audits] == [
        ("POST", "/ingest", 202),
        ("DELETE", "/images/{image_id}", 204),
        ("DELETE", "/images/{image_id}", 404),
        ("POST", "/models/{name}/build", 202),
    ]
    assert (audits[0]["location"], audits[0]["request"]) == (f"/jobs/{job}", "mine")
    assert audits[1]["image_id"] == image_id
    assert {(one["key"], one["key_name"]) for one in audits} == {(STORED.key_id, "the owner")}
    assert all("\n" not in record.getMessage() and "Ana" not in record.getMessage() for record in lines)
    assert 'image_id="x status=204\\naudit forged"' in lines[2].getMessage()
    assert 'key_name="the owner"' in lines[1].getMessage()


def test_without_keys_a_line_says_where_it_came_from(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    library = Library(tmp_path)
    api = Api(library)
    api.request("DELETE", f"/images/{'0' * 32}")
    api.get("/images")
    api.get("/nowhere")
    api.close()
    library.close()
    (line,) = [vars(record)["audit"] for record in caplog.records if record.name == "regard.audit"]
    assert (line["client"], line["status"], "key" in line) == ("127.0.0.1", 404, False)
