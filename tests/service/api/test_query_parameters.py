"""Query parameters that a route does not have, and ranges in which nothing can lie."""

from typing import Any

import pytest

from tests.support.web_app import Api, problem


def test_a_misspelt_parameter_is_named_with_those_that_there_are(api: Api) -> None:
    found = problem(api.get("/images", limt=5, sort="date"), 422, "invalid-request")
    assert found["errors"] == [
        {
            "field": "limt",
            "problem": "is not a parameter of this request; it has after, deleted, filter, limit, sort",
        }
    ]


def test_a_field_of_a_body_does_not_belong_into_the_address(api: Api) -> None:
    found = problem(api.request("POST", "/search/text?k=5", json={"query": "a dog"}), 422, "invalid-request")
    assert found["detail"] == "k: is not a parameter of this request, which has none in its address"


def test_a_parameter_is_given_once(api: Api) -> None:
    found = problem(api.request("GET", "/images?limit=5&limit=6"), 422, "invalid-request")
    assert found["detail"] == "limit: is given twice; give it once"


@pytest.mark.parametrize("path", ["/images?limit", "/jobs?limit", "/failures?limit", "/tags?limit", "/tags?values"])
def test_a_number_in_an_address_is_written_as_one(api: Api, path: str) -> None:
    found = problem(api.request("GET", f"{path}=1_0"), 422, "invalid-request")
    field = path.partition("?")[2]
    assert found["errors"] == [{"field": field, "problem": "must be a number, and '1_0' is none"}]
    assert api.request("GET", f"{path}=10").status_code == 200
    assert api.request("GET", "/tags?search=a_b").status_code == 200  # which is a text


@pytest.mark.parametrize("field", ["k", "shortlist", "min_score", "min_probability"])
def test_a_number_in_a_form_is_written_as_one(api: Api, field: str) -> None:
    form = {"image_id": (None, "f" * 32), field: (None, "1_0")}
    found = problem(api.request("POST", "/search/image", files=form), 422, "invalid-request")
    assert found["errors"] == [{"field": field, "problem": "must be a number, and '1_0' is none"}]


@pytest.mark.parametrize("path", ["/", "/livez", "/session"])
def test_what_others_add_to_addresses_of_pages_and_probes_is_let_be(api: Api, path: str) -> None:
    assert api.get(path, source="elsewhere").status_code == 200


@pytest.mark.parametrize(
    ("wanted", "field", "words"),
    [
        ({"tags": {"a": {"gte": 2, "lte": 1.5}}}, "filter.tags.a", "nothing is at least 2 and at most 1.5"),
        ({"tags": {"a": {"gte": "2024", "lte": "2020"}}}, "filter.tags.a", "nothing is at least 2024 and at most 2020"),
        ({"tags": {"a": {"gte": "b", "lte": "a"}}}, "filter.tags.a", "nothing is at least b and at most a"),
        ({"taken_at": {"gte": "2024", "lte": "2023"}}, "filter.taken_at", "no time is from 2024 on and until 2023"),
    ],
)
def test_a_range_in_which_nothing_can_lie_is_refused(api: Api, wanted: dict[str, Any], field: str, words: str) -> None:
    found = problem(api.text("x", filter=wanted), 422, "invalid-request")
    assert found["errors"] == [{"field": field, "problem": words}]


@pytest.mark.parametrize("ends", [("9", "10"), ("10", "9"), ("a", "a"), (1, 1), (None, 5)])
def test_a_range_in_which_something_can_lie_is_taken(api: Api, ends: tuple[Any, Any]) -> None:
    wanted = {"tags": {"a": {"gte": ends[0], "lte": ends[1]}}}
    assert api.text("x", filter=wanted).status_code == 200
