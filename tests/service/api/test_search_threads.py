"""Which parts of a search hold the accelerator: encoding and scoring alone."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from index.catalog.database.connection import Database
from index.views.shortlist import Shortlist
from service.api.admission import accelerator
from service.api.schemas.results import ImageAnswer, SearchAnswer, TextAnswer
from tests.support.library import two_coloured
from tests.support.web_app import Api, checked


@pytest.fixture
def holding(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether the thread that asks does the accelerator's work."""
    held, real = threading.local(), accelerator.outcomes_of

    def outcomes_of(entries: Any) -> Any:
        held.now = True
        try:
            return real(entries)
        finally:
            held.now = False

    monkeypatch.setattr(accelerator, "outcomes_of", outcomes_of)
    return lambda: getattr(held, "now", False)


def watched(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, holding: Callable[[], bool], into: list[bool]
) -> None:
    """Note for every call of `owner.name` whether it holds the accelerator."""
    real: Callable[..., Any] = getattr(owner, name)

    def noted(*given: Any, **named: Any) -> Any:
        into.append(holding())
        return real(*given, **named)

    monkeypatch.setattr(owner, name, noted)


@pytest.mark.parametrize("light_cost", [None, 10**9], ids=["a GPU", "a processor"])
def test_sql_faiss_and_json_do_not_hold_the_accelerator(
    api: Api, monkeypatch: pytest.MonkeyPatch, holding: Callable[[], bool], light_cost: int | None
) -> None:
    monkeypatch.setattr(api.services.capacity.accelerator, "_light_cost", light_cost)
    red = api.library.add("red", two_coloured("red", "red"), captions=["red", "a wall"], tags={"left": "red"})
    api.library.add("blue", two_coloured("blue", "blue"), captions=["blue"])
    others: list[bool] = []
    scoring: list[bool] = []
    for owner, name in (
        (Database, "reading"),
        (Shortlist, "search"),
        (SearchAnswer, "model_dump_json"),
        (json, "dumps"),
        (json, "loads"),
    ):
        watched(monkeypatch, owner, name, holding, others)
    for name in ("encode_sentences", "encode_regions", "score", "explain"):
        watched(monkeypatch, api.library.matcher, name, holding, scoring)
    wanted = {"tags": {"left": "red"}}
    assert checked(api.text("red", explain=True, filter=wanted), 200, TextAnswer)["results"]
    form = {"image_id": (None, red), "explain": (None, "true")}
    assert checked(api.request("POST", "/search/image", files=form), 200, ImageAnswer)["results"]
    assert scoring
    assert all(scoring)
    assert others
    assert not any(others)


@pytest.mark.parametrize(
    ("light_cost", "shortlist", "scores"), [(None, "search", "accelerator"), (10**9, "light", "light")]
)
def test_a_light_query_stays_in_one_thread(
    api: Api, monkeypatch: pytest.MonkeyPatch, light_cost: int | None, shortlist: str, scores: str
) -> None:
    monkeypatch.setattr(api.services.capacity.accelerator, "_light_cost", light_cost)
    api.library.add("red", two_coloured("red", "red"))
    threads: dict[str, str] = {}
    for owner, name in ((Shortlist, "search"), (api.library.matcher, "score")):
        real: Callable[..., Any] = getattr(owner, name)

        def noted(*given: Any, _real: Callable[..., Any] = real, _name: str = name, **named: Any) -> Any:
            threads[_name] = threading.current_thread().name.partition("_")[0]
            return _real(*given, **named)

        monkeypatch.setattr(owner, name, noted)
    assert checked(api.text("red"), 200, TextAnswer)["results"]
    assert threads == {"search": shortlist, "score": scores}
    monkeypatch.undo()


@pytest.mark.parametrize(("light_cost", "expected"), [(None, ["light", "search"]), (10**9, ["light"])])
def test_a_light_query_enters_one_thread_a_heavy_one_two(
    api: Api, monkeypatch: pytest.MonkeyPatch, light_cost: int | None, expected: list[str]
) -> None:
    monkeypatch.setattr(api.services.capacity.accelerator, "_light_cost", light_cost)
    api.library.add("red", two_coloured("red", "red"))
    entered, submit = list[str | None](), ThreadPoolExecutor.submit

    def noted(self: ThreadPoolExecutor, *given: Any, **named: Any) -> Any:
        entered.append(self._thread_name_prefix)
        return submit(self, *given, **named)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", noted)
    assert checked(api.text("red"), 200, TextAnswer)["cached"] is False
    assert entered == expected
    assert checked(api.text("red"), 200, TextAnswer)["cached"] is True
    assert entered == [*expected, "light"]
