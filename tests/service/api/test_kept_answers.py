"""Answers that were kept are given again only where they are answers, and to this very question."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from index.catalog.catalog import Catalog
from service.api.answers import answer_key
from service.api.cache import LocalCache
from service.api.redis_cache import RedisCache
from service.api.schemas.results import ImageAnswer, TextAnswer, answer_format
from service.search.requests import TextSearchRequest
from tests.support.library import Library, two_coloured
from tests.support.project_files import ROOT
from tests.support.redis_server import RedisServer
from tests.support.web_app import Api, checked, served


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    library = Library(tmp_path)
    library.add("red", two_coloured("red", "red"), captions=["red"])
    with served(library) as api:
        yield api


def spoil(api: Api, content: bytes) -> None:
    """Put this in the place of every kept answer."""
    cache = api.services.cache
    assert isinstance(cache, LocalCache)
    assert cache._answers
    for key in list(cache._answers):
        cache.put(key, content)


def changed(answer: dict[str, object], **fields: object) -> bytes:
    return json.dumps(answer | fields).encode()


def test_where_no_answer_is_kept_nothing_is_asked_of_the_gallery_for_its_key(api: Api) -> None:
    query = api.services.collection.search.begin(TextSearchRequest(query="red"))
    assert answer_key(api.services, query, {"search": "text"})
    without = replace(api.services, cache=LocalCache(0))
    nothing: Any = object()  # whatever is read of it fails
    assert answer_key(without, nothing, {"search": "text"}) is None


def test_what_is_no_answer_to_the_question_is_a_miss(api: Api) -> None:
    right = checked(api.text("red"), 200, TextAnswer)
    assert checked(api.text("red"), 200, TextAnswer)["cached"] is True
    spoilt = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 50_000,
        b"{}",
        json.dumps({"results": []}).encode(),
        changed(right, query="blue"),
        changed(right, k=3),
        changed(right, model_digest="other"),
        changed(right, index_version="0-0-0"),
        changed(right, results=right["results"] * 20),
        changed(right, results=[{}]),
        changed(right, extra="field"),
        changed(right, timings_ms={}),
    ]
    for content in spoilt:
        spoil(api, content)
        answer = checked(api.text("red"), 200, TextAnswer)
        assert answer["cached"] is False, content[:80]
        assert answer["results"] == right["results"]
    assert checked(api.text("red"), 200, TextAnswer)["cached"] is True


def test_an_answer_given_again_is_the_answer(api: Api) -> None:
    form = {"image_id": (None, api.get("/images").json()["images"][0]["image_id"])}
    first = checked(api.request("POST", "/search/image", files=form), 200, ImageAnswer)
    again = checked(api.request("POST", "/search/image", files=form), 200, ImageAnswer)
    assert again["cached"] is True
    volatile = {"cached", "timings_ms"}
    assert {k: v for k, v in first.items() if k not in volatile} == {
        k: v for k, v in again.items() if k not in volatile
    }
    assert "explanation" not in again["results"][0]


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_form_of_an_answer_has_the_same_name_in_every_process(seed: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", "from service.api.schemas.results import answer_format; print(answer_format())"],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == answer_format()
    assert answer_format().isalnum()


def test_every_collection_has_an_id_of_its_own_that_stays_until_it_is_renewed(tmp_path: Path) -> None:
    first, second = Catalog(tmp_path / "a" / "catalog.sqlite"), Catalog(tmp_path / "b" / "catalog.sqlite")
    again = Catalog(tmp_path / "a" / "catalog.sqlite")
    before = first.collection()
    assert before == again.collection()
    assert before.id != second.collection().id
    assert before.secret != second.collection().secret
    assert before.secret.hex() not in repr(before)
    first.renew_collection()
    assert again.collection().id != before.id
    assert again.collection().secret != before.secret
    for catalog in (first, second, again):
        catalog.close()


def test_copies_made_by_hand_do_not_answer_for_each_other(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RedisCache, "connect", partial(RedisCache.connect, timeout=20.0))  # however busy it is here
    library = Library(tmp_path / "a")
    ids = {colour: library.add(colour, two_coloured(colour, colour)) for colour in ("red", "blue", "green")}
    library.close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for folder, colour in (("a", "red"), ("b", "blue")):
        library = Library(tmp_path / folder)
        api = Api(library, redis_url=redis_server.url)
        api.services.separate_cache_from_copies()
        api.request("DELETE", f"/images/{ids[colour]}").raise_for_status()
        for kept in (False, True):
            answer = checked(api.text("red"), 200, TextAnswer)
            assert answer["cached"] is kept
            assert {hit["image_id"] for hit in answer["results"]} == set(ids.values()) - {ids[colour]}
        api.close()
        library.close()
