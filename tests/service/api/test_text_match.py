"""Searching in text over HTTP: both by default, each result says by what it was found, any words are data."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.api.schemas.results import TextAnswer
from tests.support.library import NOW, sixty_four
from tests.support.web_app import Api, checked, problem, served


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with served(sixty_four(tmp_path_factory.mktemp("data"))) as api:
        yield api


def ask(api: Api, **body: Any) -> Any:
    return checked(api.request("POST", "/search/text", json=body), 200, TextAnswer)


def test_both_are_looked_at_unless_one_is_asked_for(api: Api) -> None:
    asked = {"query": "red and blue", "k": 5}
    answers = {match: ask(api, **asked, match=match) for match in ("both", "pictures", "text")}
    assert ask(api, **asked)["match"] == "both"
    assert [answer["match"] for answer in answers.values()] == list(answers)
    assert {tuple(hit["found_by"]) for hit in answers["pictures"]["results"]} == {("pictures",)}
    assert {tuple(hit["found_by"]) for hit in answers["both"]["results"][:2]} == {("pictures", "text")}
    for hit in answers["text"]["results"]:
        assert (hit["found_by"], hit["score"], hit["probability"], hit["shortlist_rank"]) == (
            ["text"],
            None,
            None,
            None,
        )
    assert "explanation" not in answers["text"]["results"][0]
    problem(api.request("POST", "/search/text", json={**asked, "match": "all"}), 422, "invalid-request")


def test_what_its_text_found_is_not_counted_as_left_out(api: Api) -> None:
    answer = ask(api, query="red and blue", k=100, min_score=1e6)
    assert {tuple(hit["found_by"]) for hit in answer["results"]} == {("text",)}
    assert 0 < len(answer["results"]) == 64 - answer["left_out"]


def test_an_explanation_of_text_says_so(api: Api) -> None:
    (hit, *_) = ask(api, query="red and blue", match="text", explain=True)["results"]
    why = hit["explanation"]
    assert (why["kind"], why["regions"], why["contributions"]) == ("text", [], None)
    assert [word["text"] for word in why["words"]] == ["red", "blue"]


def test_a_change_is_found_at_once(api: Api) -> None:
    (hit,) = ask(api, query="white", k=1)["results"]
    api.request("PATCH", f"/images/{hit['image_id']}", json={"filename": "IMG_0412.jpg"})
    assert [one["image_id"] for one in ask(api, query="IMG_0412", k=1)["results"]] == [hit["image_id"]]


def test_similar_pictures_are_found_by_pictures(api: Api) -> None:
    (hit,) = ask(api, query="white", k=1)["results"]
    fields = {"image_id": (None, hit["image_id"]), "target": (None, "images")}
    alike = api.request("POST", "/search/image", files=fields).json()["results"]
    assert {tuple(one["found_by"]) for one in alike} == {("pictures",)}


@settings(max_examples=60)
@given(
    query=st.text(max_size=60)
    | st.lists(st.sampled_from(["AND", "NOT", "NEAR(", '"', "*", "red", "-red", "texts:", "\0"])).map(" ".join),
    match=st.sampled_from(["both", "text"]),
)
def test_no_words_are_syntax(api: Api, query: str, match: str) -> None:
    answer = api.request("POST", "/search/text", json={"query": query, "match": match})
    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 422:
        assert not query.strip() or not any(character.isalnum() for character in query), answer.text


def test_near_duplicates_are_named_when_asked_for(api: Api) -> None:
    pictures = ask(api, query="cyan", k=64)["results"]
    assert all("near_duplicates" not in hit for hit in pictures)
    api.library.catalog.hashes.add({hit["image_id"]: bytes(7) + bytes([n % 2]) for n, hit in enumerate(pictures)})
    (hit,) = ask(api, query="cyan", k=10, group_near_duplicates=True)["results"]
    assert hit["image_id"] == pictures[0]["image_id"]
    assert [one["image_id"] for one in hit["near_duplicates"]] == [one["image_id"] for one in pictures[1:]]
    assert [one["bits"] for one in hit["near_duplicates"][:2]] == [1, 0]
    form = {"image_id": (None, hit["image_id"]), "group_near_duplicates": (None, "true")}
    problem(api.request("POST", "/search/image", files=form), 422, "invalid-request")
    alike = api.request("POST", "/search/image", files={**form, "target": (None, "images")}).json()["results"]
    assert [len(one["near_duplicates"]) for one in alike] == [62]


def test_words_that_only_ask_need_not_be_in_the_text(api: Api) -> None:
    asked, plain = (ask(api, query=query, match="text") for query in ("show me red and blue, please", "red and blue"))
    assert [hit["image_id"] for hit in asked["results"]] == [hit["image_id"] for hit in plain["results"]] != []
    assert asked["matched"] is True
    assert ask(api, query="show me what is not there", match="text")["matched"] is False


def test_pictures_of_a_date_come_first_where_nothing_else_is_asked_for(api: Api) -> None:
    day = datetime.fromtimestamp(NOW - 1000, UTC)
    for query in (f"{day:%Y-%m-%d}", f"{day:%d.%m.%Y}", f"photos taken on {day:%B %d, %Y}"):
        by_text = ["text" in hit["found_by"] for hit in ask(api, query=query, k=64)["results"]]
        assert by_text == sorted(by_text, reverse=True)
        assert set(by_text) == {True, False}
