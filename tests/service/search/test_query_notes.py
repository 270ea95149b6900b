"""Questions that models cannot read as they were meant are told so, and ordinary ones are left alone."""

import re

import pytest

from service.search.wording.query_notes import FoundCounts
from tests.support.notes import note_for

ORDINARY = (
    *("a dog runs on the beach", "pizza", "Two men in red shirts", "people at a de facto border"),
    *("a la carte menu on a table", "le mans race cars", "notebook and nothingness", "IMG_0412", "", "☃"),
)


def question_and_time(marked: str) -> tuple[str, str]:
    """The question, and the time that brackets mark in it."""
    before, time, after = re.split(r"[\[\]]", marked)
    return before + time + after, time


@pytest.mark.parametrize("query", ORDINARY)
def test_ordinary_questions_have_no_note(query: str) -> None:
    assert note_for(query) is None


def test_a_language_is_told_before_what_is_ruled_out() -> None:
    assert "Read as" in (note_for("eine Küche ohne den Hund not") or "")
    assert "Dutch" in (note_for("een hond zonder het water not") or "")


@pytest.mark.parametrize(
    "marked",
    [
        *("a beach [before 2020]", "[since May 2019]", "[2018-2020]", "[between 2018 and 2020]", "[Summer 2023]"),
        *("photos from [last summer]", "[three weeks ago]", "[yesterday]", "what we ate [today]"),
        *("the garden [this morning]", "a beach [since 2020] with dogs", "a beach [before 2020-05-01]"),
    ],
)
def test_a_time_that_no_text_holds_is_told(marked: str) -> None:
    query, period = question_and_time(marked)
    assert f"“{period}” is not read as a time" in (note_for(query) or "")


@pytest.mark.parametrize(
    "marked",
    [
        *("a dog in the snow, [2021]", "dogs [in 2021] on a beach", "[in 2021] we went to the sea"),
        *("our garden [during 1999]?", "cars [from the year 1967]", "dogs [in May 2021]"),
        *("a wedding [on May 14, 2021]", "a wedding [June 2021]", "a dog in the snow [2021]", "ford mustang [1967]"),
        *("[2021] dogs", "dog [5.6.2023]", "dog [5.6.23]", "dog [june]", "dogs [in may]", "[june 2021] wedding"),
        *("dogs ([2021])", "dogs [14.05.2021]"),
    ],
)
def test_a_year_that_is_perhaps_a_time_is_told_as_such(marked: str) -> None:
    query, year = question_and_time(marked)
    assert note_for(query) == f"“{year}” is not read as a time; if it is one, filter by date instead."
    assert note_for(query, filters_dates=True) == f"“{year}” is not read as a time."
    assert note_for(query, found=FoundCounts(5, 0)) == note_for(query)
    assert note_for(query, found=FoundCounts(5, 5)) is None
    assert note_for(query, found=FoundCounts(5, 2)) == (
        "Date and text of 2 pictures hold all words; the others were found by what they show."
    )


@pytest.mark.parametrize(
    "query",
    [
        *("a bus number 2021", "a man in 1900 style", "a room in 1900-style", "people in 1920 clothes"),
        *("a house from 1900 ruins", "a car parked before room 2021", "a car after 1967 models"),
        *("summer 2024 olympics", "a screenshot, 1920 x 1080", "a sign that says 1984", "a cake with 2021 on it"),
        *("class of 2020", "a man may jump", "people march", "fireworks on the 4th of july", "fireworks july 4"),
        *("May 2023", "2019-12-25", "2019", "summer", "the last supper", "12/2019", "a man before a car", "room 2150"),
        *("screenshot 1920 x 1080", "a 1965 ford mustang"),
    ],
)
def test_dates_and_other_words_are_no_such_time(query: str) -> None:
    assert note_for(query) is None


def test_a_time_that_texts_hold_is_not_told() -> None:
    assert note_for("winter 2021", found=FoundCounts(3, 3)) is None
    assert "is hardly understood" in (note_for("anything but dogs before 2020", found=FoundCounts(3, 3)) or "")
    assert "“this christmas” is not read" in (
        note_for("dogs this christmas", found=FoundCounts(3, 3)) or ""
    )  # of any year


@pytest.mark.parametrize(
    "date", ["May 2019", "2019", "14.05.2019", "2 March 2025", "2025-03-02", "31 February 2020", "June", "in December"]
)
def test_a_date_that_no_picture_has_is_told(date: str) -> None:
    assert note_for(date, found=FoundCounts(24, 0)) == f"No picture's date or text says “{date}”."
    assert note_for(date, found=FoundCounts(24)) is None  # texts were not looked at
    assert note_for(date, found=FoundCounts(24, 24)) is None
    assert note_for(date, found=FoundCounts(24, 1)) == (
        "Date and text of 1 picture hold all words; the others were found by what they show."
    )


@pytest.mark.parametrize(
    "name",
    [
        *("IMG_0412", "img 0412", "DSC01234.ARW", "000000214704.jpg", "P1010001", "IMG-20190101-WA0003"),
        *("dsc99.jpg", "holiday.jpg", "Dogs/broken.JPEG", "x(1).rw2"),
    ],
)
def test_a_name_of_a_file_that_no_picture_has_is_told(name: str) -> None:
    assert note_for(name, found=FoundCounts(24, 0)) == f"No picture's name or other text says “{name}”."
    assert note_for(name, found=FoundCounts(24)) is None  # texts were not looked at
    assert note_for(name, found=FoundCounts(24, 1)) is None


@pytest.mark.parametrize(
    "question",
    ["a dog 0412", "f16", "boeing747", "1980s", "2000m", "covid2019", "pizza2024", "a dog.jpg", ".jpg", "a.gift"],
)
def test_other_words_with_digits_are_no_name_of_a_file(question: str) -> None:
    assert note_for(question, found=FoundCounts(24, 0)) is None


def test_letters_of_another_form_are_no_other_question() -> None:
    assert note_for("ｄｏｇ") is None


def test_what_is_left_of_words_that_only_ask_is_said() -> None:
    assert note_for("Is there a zebra?") == "Searched for “a zebra”."
    note = note_for("show me photos of a kitchen without people", found=FoundCounts(3))
    assert note == "Searched for “a kitchen without people”. Pictures that show “people” come later."


def test_pictures_that_cannot_be_found_yet_are_told_where_they_are_more_than_come_in_at_a_time() -> None:
    assert note_for("pizza", 10) is None
    assert note_for("pizza", 10, found=FoundCounts(1, 0)) is None
    assert note_for("pizza", 11) == "11 pictures that are stored cannot be found yet."


def test_the_first_pictures_are_told_of_where_nothing_is_found_yet() -> None:
    assert note_for("pizza", found=FoundCounts(0, 0)) is None
    assert note_for("pizza", 6, found=FoundCounts(0, 0)) == "6 pictures that are stored cannot be found yet."
    assert note_for("pizza", 1, found=FoundCounts(0)) == "1 picture that is stored cannot be found yet."


def test_of_tags_that_are_named_two_are_offered() -> None:
    tags = [("album", "Trips/Oslo"), ("place", "Oslo"), ("who", "Anna")]
    told = "There are pictures with “album: Trips/Oslo” and “place: Oslo”: filter by that to look at these alone."
    assert note_for("a dog in Oslo", tags=tags) == told
