"""Where the parts of a search run: only encoding and scoring take the accelerator's thread."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from index.schema import Database
from index.shortlist import Shortlist
from service.api.schemas.results import ImageAnswer, SearchAnswer, TextAnswer
from tests.support.library import Library, two_coloured
from tests.support.web_app import Api, checked


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    library = Library(tmp_path)
    api = Api(library)
    yield api
    api.close()
    library.close()


def watched(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, into: list[str]) -> None:
    """Note the name of the thread in every call of `owner.name`."""
    real: Callable[..., Any] = getattr(owner, name)

    def noted(*given: Any, **named: Any) -> Any:
        into.append(threading.current_thread().name)
        return real(*given, **named)

    monkeypatch.setattr(owner, name, noted)


def test_sql_faiss_and_json_keep_off_the_accelerators_thread(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    red = api.library.add("red", two_coloured("red", "red"), captions=["red", "a wall"], tags={"left": "red"})
    api.library.add("blue", two_coloured("blue", "blue"), captions=["blue"])
    elsewhere: list[str] = []
    scoring: list[str] = []
    for owner, name in (
        (Database, "reading"),
        (Shortlist, "search"),
        (SearchAnswer, "model_dump_json"),
        (json, "dumps"),
        (json, "loads"),
    ):
        watched(monkeypatch, owner, name, elsewhere)
    for name in ("encode_sentences", "encode_regions", "score", "explain"):
        watched(monkeypatch, api.library.matcher, name, scoring)
    wanted = {"tags": {"left": "red"}}
    assert checked(api.text("red", explain=True, filter=wanted), 200, TextAnswer)["results"]
    form = {"image_id": (None, red), "explain": (None, "true")}
    assert checked(api.request("POST", "/search/image", files=form), 200, ImageAnswer)["results"]
    assert set(scoring) == {"accelerator"}
    assert elsewhere
    assert "accelerator" not in elsewhere
