"""Dates with the months and weekdays of other languages find what the same dates in English find."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from index.catalog.filters import Filter
from index.catalog.text.search import is_date, match_expression
from tests.support.catalogs import make_ready, picture

TAKEN = {
    "christmas": datetime(2022, 12, 24, 18, tzinfo=UTC),
    "spring": datetime(2023, 3, 15, 9, tzinfo=UTC),
    "may": datetime(2023, 5, 14, 12, tzinfo=UTC),
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    folder: Path = tmp_path_factory.mktemp("catalog")
    with closing(Catalog(folder / "catalog.sqlite")) as made:
        made.take_in(
            [picture(name, filename="x.jpg", taken_at=day.timestamp()) for name, day in TAKEN.items()], now=1.0
        )
        make_ready(made, *TAKEN)
        yield made


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Dezember 2022", "christmas"),
        ("24. Dezember 2022", "christmas"),
        ("am 24. Dezember 2022", "christmas"),
        ("Samstag, den 24. Dezember 2022", "christmas"),
        ("le 24 décembre 2022", "christmas"),
        ("24 de diciembre de 2022", "christmas"),
        ("24 dicembre 2022", "christmas"),
        ("März 2023", "spring"),
        ("mars 2023", "spring"),
        ("marzo 2023", "spring"),
        ("Mai 2023", "may"),
        ("14 maggio 2023", "may"),
        ("domingo 14 de mayo 2023", "may"),
    ],
)
def test_they_find_the_pictures_of_that_date(catalog: Catalog, question: str, name: str) -> None:
    assert is_date(question)
    found = [match.image.image_id for match in catalog.texts.matches(question, 10, Filter())]
    assert found == [name]


@pytest.mark.parametrize("question", ["mars", "mars rover 2020", "mayo", "julio and august", "le mans 2023", "de 5"])
def test_other_words_are_no_dates(question: str) -> None:
    assert not is_date(question)
    assert " OR " not in match_expression(question)
