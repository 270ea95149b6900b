"""Tags that `regard edit` sets are found by the same words after `--tag`."""

from collections.abc import Iterator

import pytest
import typer

from index.catalog.catalog import Catalog
from index.catalog.filters import Filter
from service.cli.commands.edit import read_tag
from service.cli.picture_filter import picture_filter, tag_conditions
from service.cli.terminal.picture_cells import date_cell
from tests.support.catalogs import make_ready, picture

VALUES = ["5", "5.0", "2.50", "19.90", "1e3", "-0", "12345678901234567890", " 5", "+5", "007", "NaN", "1_000", "0x10"]
VALUES += ["Infinity", "1e999", "9" * 400, "9" * 5000, "[" * 1000, "true", "null", "٥", "Oslo", "a=b"]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    catalog = Catalog(tmp_path_factory.mktemp("tags") / "catalog.sqlite")
    for number, value in enumerate(VALUES):
        name, content = read_tag(f"version={value}")
        assert content is not None
        catalog.take_in([picture(f"{number}", tags={name: content})], 1.0)
        make_ready(catalog, f"{number}")
    yield catalog
    catalog.close()


@pytest.mark.parametrize("number", range(len(VALUES)), ids=[value[:12] for value in VALUES])
def test_a_tag_is_found_as_it_was_set(catalog: Catalog, number: int) -> None:
    found = catalog.matching(Filter(tags=tag_conditions([f"version={VALUES[number]}"])))
    assert found[number]


def test_what_is_written_as_a_number_lies_in_a_range(catalog: Catalog) -> None:
    found = catalog.matching(Filter(tags=tag_conditions(["version>=2.5", "version<=19.9"])))
    assert [VALUES[place] for place in found.nonzero()[0]] == ["5", "5.0", "2.50", "19.90"]


@pytest.mark.parametrize("text", [str(2**63), str(-(2**63) - 1), "9" * 5000])
def test_a_whole_number_of_more_than_64_bits_is_not_rounded(text: str) -> None:
    assert read_tag(f"serial={text}") == ("serial", text)
    assert tag_conditions([f"serial={text}"]) == {"serial": [text]}
    assert read_tag(f"serial={2**63 - 1}") == ("serial", 2**63 - 1)


def test_a_time_reaches_to_the_end_of_the_period_that_is_named_last() -> None:
    wanted = {"taken_at": {"gte": "2024-06", "lte": "2024"}}
    assert picture_filter(None, None, since="2024-06", until="2024") == wanted
    with pytest.raises(typer.BadParameter, match="no time is from 2025-01 on"):
        picture_filter(None, None, since="2025-01", until="2024")


@pytest.mark.parametrize(
    ("text", "date"),
    [
        *(("05.07.2023", "2023-07-05"), ("5/7/2023", "2023-07-05"), ("5/14/2023", "2023-05-14")),
        *(("7.2023", "2023-07"), ("2023/7/5", "2023-07-05"), ("2023-7", "2023-07"), ("2023", "2023")),
    ],
)
def test_dates_may_be_written_as_on_the_page(text: str, date: str) -> None:
    assert picture_filter(None, text, None, None) == {"taken_at": date}
    assert picture_filter(None, None, text, None) == {"taken_at": {"gte": date}}


@pytest.mark.parametrize("text", ["31.02.2023", "13.13.2023", "5.7.23 x", "1.2.3.2023", "0.2023"])
def test_what_is_no_day_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="--date"):
        picture_filter(None, text, None, None)


@pytest.mark.parametrize("text", ["year>=2020", "year<=2020", "year>="])
def test_a_range_is_no_tag_to_set(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is a range"):
        read_tag(text)


def test_the_day_of_a_photograph_has_four_digits_for_its_year() -> None:
    assert date_cell("0987-06-05T00:00:00Z") == "0987-06-05"
