"""A picture has so many captions and tags and no more, however many say something of it at once."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from index.catalog.changes.description_bounds import MOST_CAPTIONS, MOST_TAGS, Excess, OversizedDescription
from index.records import PictureChange
from tests.support.catalogs import image_of, make_ready, picture

EACH, AT_ONCE = 400, 4


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with closing(Catalog(tmp_path / "catalog.sqlite")) as made:
        made.take_in([picture("a")], now=1.0)
        yield made


def numbered(first: int, count: int) -> list[str]:
    return [f"said {number}" for number in range(first, first + count)]


def at_once(say: Callable[[list[str]], object]) -> list[str]:
    """The refusals where several requests describe it at once."""
    begin = threading.Barrier(AT_ONCE)

    def one(turn: int) -> str:
        begin.wait()
        try:
            say(numbered(turn * EACH, EACH))
        except OversizedDescription as refusal:
            return str(refusal)
        return ""

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return sorted(threads.map(one, range(AT_ONCE)))


def test_of_changes_that_come_at_once_those_are_made_that_fit(catalog: Catalog) -> None:
    refusals = at_once(lambda names: catalog.change("a", PictureChange(tags=dict.fromkeys(names, 1))))
    assert refusals == ["", "", *["picture a would have 1200 tags, and may have 1000"] * 2]
    assert len(image_of(catalog, "a").tags) == 2 * EACH


def test_of_files_that_come_at_once_those_are_taken_in_that_fit(catalog: Catalog) -> None:
    refusals = at_once(lambda texts: catalog.take_in([picture("a", captions=texts)], now=2.0))
    assert refusals == ["", "", *["picture a would have 1200 captions, and may have 1000"] * 2]
    assert len(image_of(catalog, "a").captions) == 2 * EACH


def test_all_that_is_too_much_is_told_at_once_and_nothing_is_made(catalog: Catalog) -> None:
    full = picture("a", captions=numbered(0, MOST_CAPTIONS + 1))
    copies = [picture("b", tags=dict.fromkeys(numbered(turn * 600, 600), 1)) for turn in range(2)]
    with pytest.raises(OversizedDescription) as refusal:
        catalog.take_in([full, *copies, picture("c", captions=numbered(0, MOST_CAPTIONS))], now=2.0)
    assert refusal.value.refused == {"a": Excess("captions", 1001, 1000), "b": Excess("tags", 1200, 1000)}
    assert [one.image_id for one in catalog.list_images(None, 10)] == ["a"]
    assert image_of(catalog, "a").captions == ()


def test_what_has_more_than_it_may_is_described_as_long_as_it_does_not_grow(catalog: Catalog) -> None:
    catalog.take_in([picture("a", captions=numbered(0, MOST_CAPTIONS))], now=2.0)
    make_ready(catalog, "a", captions=["of the file"])
    many = PictureChange(tags=dict.fromkeys(numbered(0, MOST_TAGS + 1), 1))
    assert catalog.change("a", many, bounded=False) == image_of(catalog, "a")
    assert catalog.change("a", PictureChange(tags={"said 0": 2, "said 1": None, "other": 1}))
    catalog.take_in([picture("a", captions=["of the file"], tags={"other": 3})], now=3.0)
    for more in (PictureChange(tags={"one": 1}), PictureChange(captions=numbered(0, MOST_CAPTIONS + 2))):
        with pytest.raises(OversizedDescription):
            catalog.change("a", more)
    assert len(image_of(catalog, "a").captions) == MOST_CAPTIONS + 1
