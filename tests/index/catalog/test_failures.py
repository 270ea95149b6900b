"""Failures are found one by one and listed page by page, whatever kind they are of."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from index.catalog.ingestion.failures import failure_key
from index.records import RegionStoreEntry
from tests.support.catalogs import make_ready, picture

NAMES = ["d", "a", "f", "b", "e", "c"]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """Three pictures set aside, two that came at once, two that the current store holds none of, one that is well."""
    with closing(Catalog(tmp_path / "catalog.sqlite")) as made:
        for name, came in zip(NAMES, (5.0, 5.0, 2.0, 4.0, 4.0, 3.0), strict=True):
            made.take_in([picture(name)], now=came)
        for name in "daf":
            made.queue.set_aside(name, f"{name} is no JPEG", now=9.0 - ord(name))
        made.region_stores.replace(
            [RegionStoreEntry(extractor="new", folder="regions/new", state="current", records=0)]
        )
        for name in "bec":
            make_ready(made, name)
        made.region_stores.add_records("new", range(3), {0: "b is gone", 1: "e is gone", 2: None}, now=9.0)
        yield made


def test_the_latest_come_first_and_pages_cut_nothing(catalog: Catalog) -> None:
    whole = catalog.failures.page()
    assert [one.image_id for one in whole] == ["a", "d", "b", "e", "f"]
    assert [one.added_at for one in whole] == [5.0, 5.0, 4.0, 4.0, 2.0]
    for size in range(1, 7):
        found = catalog.failures.page(limit=size)
        while page := catalog.failures.page(failure_key(found[-1]), size):
            assert len(page) <= size
            found += page
        assert found == whole


def test_one_is_found_by_its_id(catalog: Catalog) -> None:
    for one in catalog.failures.page():
        assert catalog.failures.find(one.image_id) == one
        assert one.reason.startswith(one.image_id)
    assert catalog.failures.find("c") is None
    assert catalog.failures.find("none") is None


def test_what_is_deleted_has_not_failed(catalog: Catalog) -> None:
    for name in "db":
        catalog.delete(name, now=6.0)
        assert catalog.failures.find(name) is None
    assert [one.image_id for one in catalog.failures.page()] == ["a", "e", "f"]
