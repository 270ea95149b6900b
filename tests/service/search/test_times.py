"""Times that a question names are left out of what models read, and nothing else is."""

import json
import os
from pathlib import Path

import pytest

from models.text.request_words import subject_of
from service.search.requests import TextSearchRequest
from service.search.wording.parsed_query import parse_query
from service.search.wording.periods import Suggestion, suggestion_for
from service.search.wording.times import visible_part


@pytest.mark.parametrize(
    ("subject", "visible", "period"),
    [
        ("a dog in the snow, 2023", "a dog in the snow", "2023"),
        ("a dog in the snow 2023", "a dog in the snow", "2023"),
        ("dog 5.6.2023", "dog", "2023-06-05"),
        ("dog 5/6/2023", "dog", ""),
        ("dog 5/14/2023", "dog", "2023-05-14"),
        ("dog 31.2.2023", "dog", ""),
        ("dog, May 2024, beach", "dog, beach", "2024-05"),
        ("dogs on Sunday, 14.5.2023, beach", "dogs, beach", "2023-05-14"),
        ("our garden during 1999?", "our garden", "1999"),
        ("wedding (2019)", "wedding", "2019"),
        ("a picnic on the 3rd of June", "a picnic", ""),
        ("beach from 2019 to 2021", "beach", "2019..2021"),
        ("beach between 2019 and 2021", "beach", "2019..2021"),
        ("beach 2019 and 2021", "beach", ""),
        ("boys in April of 1929", "boys", "1929-04"),
        ("boys before January 1929", "boys", "..1928-12"),
        ("boys after 28.2.1929", "boys", "1929-03-01.."),
        ("boys since Sept. 1929", "boys", "1929-09.."),
        ("boys up to 1929", "boys", "..1929"),
        ("what we ate three days ago", "what we ate", ""),
        ("2023 garden party", "garden party", "2023"),
        ("dogs, 14. März 2019", "dogs", "2019-03-14"),
        ("beach août 2019", "beach", "2019-08"),
        ("Hund am Strand im Mai 2023", "Hund am Strand", "2023-05"),
        ("perro en 2023", "perro", "2023"),
        ("beach older than 2020", "beach older than", ""),
        ("Hund vor 2023", "Hund vor", ""),
        ("dogs not in 2023", "dogs not", ""),
        ("beach 3 de junio de 2019", "beach", "2019-06-03"),
        ("Hund Bilder 2021", "Hund Bilder", "2021"),
        ("a lake in the winter of 2021", "a lake winter", "2021"),
        ("a lake before winter 2021", "a lake winter", ""),
        ("a lake in 2021 or in 2023", "a lake or", ""),
    ],
)
def test_a_time_beside_other_words_is_left_out_and_suggested(subject: str, visible: str, period: str) -> None:
    assert visible_part(subject) == visible
    first, last = period.split("..") if ".." in period else (period, period)
    taken_at = {end: date for end, date in (("gte", first), ("lte", last)) if date}
    assert suggestion_for(subject) == (Suggestion(visible, taken_at) if period else None)


@pytest.mark.parametrize(
    ("subject", "visible"),
    [
        ("children at christmas 2021", "children at christmas"),
        ("a lake, winter of 2021", "a lake, winter"),
        ("the beach last summer", "the beach summer"),
    ],
)
def test_what_pictures_show_of_a_time_stays(subject: str, visible: str) -> None:
    assert visible_part(subject) == visible


@pytest.mark.parametrize(
    "subject",
    [
        *("2023", "May 2024", "yesterday", "photos from 2021", "2018-2020", "the year 2000"),
        *("a man may jump", "people march", "an august gathering", "fireworks on the 4th of july"),
        *("a room in 1900-style", "a bus number 2021", "a sign that says 1984", "a 1965 ford mustang"),
        *("Juni 2019", "14 de mayo de 2023", "the mai tai", "a poster of mars 2020 mission"),
        *("screenshot 1920 x 1080", "version 1.2.3", "IMG_20230514"),
    ],
)
def test_a_time_alone_and_other_words_stay(subject: str) -> None:
    assert visible_part(subject) == subject
    assert suggestion_for(subject) is None


@pytest.mark.parametrize("end", ["", "?", ".", "!", " ?", "?!", "..."])
def test_a_mark_at_the_end_says_nothing(end: str) -> None:
    assert parse_query(TextSearchRequest(query=f" a dog{end} ").query).wanted == "a dog"
    assert [visible_part(text) for text in ("a dog .", "in Washington D.C.", "?!")] == [
        *("a dog .", "in Washington D.C.", "?!")
    ]


@pytest.mark.realdata
def test_captions_of_photographs_are_read_as_they_are() -> None:
    lines = (Path(os.environ["REGARD_TEST_DATA"]) / "flickr8k" / "captions.jsonl").read_text(encoding="utf-8")
    subjects = [subject_of(caption) for line in lines.splitlines() for caption in json.loads(line)["captions"]]
    assert len(subjects) > 30_000
    assert [subject for subject in subjects if visible_part(subject) != subject.rstrip(" !?")] == [
        "A crowd of people remember the Armenian genocide from 1915 to 1923 ."
    ]
