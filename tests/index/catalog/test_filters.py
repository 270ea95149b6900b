"""Filters against plain comparisons, and what they refuse."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.catalog.catalog import Catalog
from index.catalog.filters import Filter, as_number
from tests.support.catalogs import make_ready, picture

VALUES: list[Any] = [5, 5.0, -3, 2.5, 10, 9_007_199_254_740_993, 0, "5", "10", "9", "", "paris", "Paris", "o'; DROP"]
TAGS: list[dict[str, Any]] = [{"t": value} for value in VALUES]
TAGS += [{}, {"u": 5}, {"t": "paris", "u": 7}, {"t": 3, "u": "x", "weird \"name'": 1}]
TAKEN = [None if place % 3 == 0 else float(place) for place in range(len(TAGS))]


@pytest.fixture(name="catalog", scope="module")
def a_filled_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """One ready picture for each of TAGS, with two captions, then a deleted, a failed and a queued one."""
    catalog = Catalog(tmp_path_factory.mktemp("catalog") / "catalog.sqlite")
    pictures = [
        picture(f"p{place}", tags=tags, taken_at=TAKEN[place], captions=["one", "two"])
        for place, tags in enumerate(TAGS)
    ]
    others = [picture(name, tags={"t": 5}, taken_at=1.0, captions=["one"]) for name in ("gone", "bad", "waiting")]
    catalog.take_in([*pictures, *others], now=0.0)
    make_ready(catalog, *(one.image_id for one in pictures), "gone")
    catalog.delete("gone", now=1.0)
    catalog.queue.set_aside("bad", "bad", now=1.0)
    yield catalog
    catalog.close()


def is_number(value: object) -> bool:
    return isinstance(value, int | float)


def numbers_in(value: Any) -> list[Any]:
    """The value as a number, where it is one or is written like one."""
    number = as_number(value) if isinstance(value, str) else value
    return [] if number is None else [number]


def within(value: Any, bounds: Mapping[str, Any]) -> bool:
    """Whether a value of their kind lies within all bounds."""
    return all(value >= bound if operator == "gte" else value <= bound for operator, bound in bounds.items())


def passes(value: Any, condition: Any) -> bool:
    """Whether a tag's value meets a condition; a text that is the plain writing of a number also compares as one."""
    if not isinstance(condition, Mapping):
        wanted = condition if isinstance(condition, list) else [condition]
        alike = any(value == one and is_number(value) == is_number(one) for one in wanted)
        return alike or any(numbers_in(value) == numbers_in(one) != [] for one in wanted)
    bounds = list(condition.values())
    if all(map(is_number, bounds)):
        return any(within(number, condition) for number in numbers_in(value))
    if isinstance(value, str):
        return within(value, condition)
    limits = {operator: as_number(text) for operator, text in condition.items()}
    return None not in limits.values() and within(value, limits)


def expected(tags: Mapping[str, Any], taken_at: Mapping[str, Any] | None) -> list[bool]:
    return [
        all(name in of and passes(of[name], condition) for name, condition in tags.items())
        and (taken_at is None or (taken is not None and within(taken, taken_at)))
        for of, taken in zip(TAGS, TAKEN, strict=True)
    ]


def ranges(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(["gte", "lte"]), values, min_size=1)


NUMBERS = st.sampled_from([value for value in VALUES if is_number(value)]) | st.integers(-5, 15)
WORDS = st.sampled_from([value for value in VALUES if not is_number(value)]) | st.text("Pa5 1", max_size=3)
CONDITIONS = NUMBERS | WORDS | st.lists(NUMBERS | WORDS, min_size=1) | ranges(NUMBERS) | ranges(WORDS)


@given(
    st.dictionaries(st.sampled_from(["t", "u", "weird \"name'", "none"]), CONDITIONS, max_size=3),
    st.none() | ranges(st.floats(-1, 20)),
)
def test_a_filter_passes_what_plain_comparisons_pass(
    catalog: Catalog, tags: dict[str, Any], taken_at: dict[str, Any] | None
) -> None:
    found, passing = Filter(tags=tags, taken_at=taken_at), expected(tags, taken_at)
    np.testing.assert_array_equal(catalog.matching(found), [*passing, False])
    np.testing.assert_array_equal(catalog.matching_captions(found), [*np.repeat(passing, 2), False])
    assert sum(catalog.count_listed(found).values()) == len(catalog.list_images(None, 1000, found))


def test_no_condition_passes_what_is_visible(catalog: Catalog) -> None:
    np.testing.assert_array_equal(catalog.matching(Filter()), catalog.visible())
    np.testing.assert_array_equal(catalog.matching_captions(Filter()), catalog.visible_captions())


@pytest.mark.parametrize(
    ("value", "condition", "passing"),
    [
        (3000, {"gte": "2020", "lte": "4000"}, True),
        (3000, {"gte": "2020", "lte": "abc"}, False),
        ("3000", {"gte": "2020", "lte": "abc"}, True),
        ("1e+20", 1e20, True),
        (1e20, 1e20, True),
        (1e20, "1e+20", True),
        ("1e+20", {"gte": 1e19}, True),
        ("0.3333333333333333", {"gte": 0.3, "lte": 0.34}, True),
        ("1.0e+20", {"gte": 1e19}, False),
        ("inf", {"gte": 0}, False),
        ("inf", 1e308, False),
        ("100000000000000000000", 1e20, False),
    ],
)
def test_a_number_and_a_text_meet_where_they_are_written_alike(
    tmp_path: Path, value: Any, condition: Any, passing: bool
) -> None:
    with closing(Catalog(tmp_path / "catalog.sqlite")) as catalog:
        catalog.take_in([picture("a", tags={"t": value})], now=0.0)
        make_ready(catalog, "a")
        assert catalog.matching(Filter(tags={"t": condition})).tolist() == [passing]


@pytest.mark.parametrize("digits", [19, 20, 308, 309, 400, 4300, 4301])
def test_a_text_of_more_digits_than_a_number_holds_is_a_text(catalog: Catalog, digits: int) -> None:
    text = "9" * digits
    assert as_number(text) is None
    for condition in (text, ["5", text], {"gte": text}, {"gte": "5", "lte": text}):
        catalog.matching(Filter(tags={"t": condition}))
    assert not catalog.matching(Filter(tags={"t": text})).any()


@pytest.mark.parametrize(
    ("tags", "taken_at", "words"),
    [
        ({"t": {"gt": 3}}, None, "gte and/or lte, not gt"),
        ({"t": {"gte": 3, "$ne": 4}}, None, r"not \$ne"),
        ({"t": {}}, None, "not nothing"),
        ({"t": {"gte": 3, "lte": "z"}}, None, "two numbers or of two strings"),
        ({"t": True}, None, "not True"),
        ({"t": None}, None, "not None"),
        ({"t": [1, [2]]}, None, r"not \[2\]"),
        ({"t": []}, None, "1 .. 1000 values, not 0"),
        ({"t": list(range(1001))}, None, "1 .. 1000 values, not 1001"),
        ({"t": float("nan")}, None, "not nan"),
        ({"t": 2**63}, None, "64-bit"),
        ({"t": {"lte": float("inf")}}, None, "finite"),
        ({str(number): 1 for number in range(51)}, None, "at most 50 tags, not 51"),
        ({str(number): list(range(1000)) for number in range(11)}, None, "at most 10000 values of tags in all"),
        ({}, {"gte": "2020-01-01"}, "unix seconds"),
        ({}, {"after": 3.0}, "not after"),
        ({}, {}, "not nothing"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(
    tags: dict[str, Any], taken_at: dict[str, Any] | None, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Filter(tags=tags, taken_at=taken_at)


def test_the_largest_filter_can_be_asked(catalog: Catalog) -> None:
    largest = Filter(tags={str(number): list(range(1000)) for number in range(10)}, taken_at={"gte": 0, "lte": 1})
    assert not catalog.matching(largest).any()
