"""Lists of pictures, a page at a time, against sorting all of them."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.catalog.catalog import Catalog
from index.catalog.database.connection import Database
from index.catalog.filters import EVERY
from index.catalog.list_orders import IN_ONE, IN_SEVERAL, ListedAt, list_parts, page_key, page_rows
from index.records import Image, ImageOrder, ListPlace
from tests.support.catalogs import picture

ORDERS: tuple[ImageOrder, ...] = get_args(ImageOrder)
# Clocks that go back, and moments that several pictures share; dates before 1970, and none.
ADDED = [50.0, 40.0, 40.0, 60.0, 60.0, 60.0, 10.0, 70.0]
TAKEN = [None, -5.0, 7.0, 7.0, None, 0.0, None, 45.0]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with closing(filled(tmp_path_factory.mktemp("lists"))) as catalog:
        yield catalog


def filled(folder: Path) -> Catalog:
    catalog = Catalog(folder / "catalog.sqlite")
    for number, (added, taken) in enumerate(zip(ADDED, TAKEN, strict=True)):
        catalog.take_in([picture(f"{number}", taken_at=taken)], added)
    return catalog


def sorted_by_hand(images: list[Image], order: ImageOrder) -> list[str]:
    """Ids in the order of one catalog; `images` come in the order of their arrival."""
    if order != "arrival":
        images = images[::-1]
    if order == "date":
        images = sorted(images, key=lambda one: (one.taken_at is None, -(one.taken_at or 0.0)))
    return [image.image_id for image in images]


@given(st.sampled_from(ORDERS), st.integers(1, 9))
def test_pages_are_the_sorted_list_in_pieces(catalog: Catalog, order: ImageOrder, size: int) -> None:
    found: list[str] = []
    while page := catalog.list_images(ListPlace(found[-1]) if found else None, size, order=order):
        assert len(page) <= size
        found += [image.image_id for image in page]
    assert found == sorted_by_hand(catalog.list_images(None, 100), order)
    assert len(found) == len(ADDED)


@given(st.sampled_from(ORDERS), st.integers(1, 9))
def test_pages_of_several_catalogs_are_sorted_by_their_keys(catalog: Catalog, order: ImageOrder, size: int) -> None:
    found: list[Image] = []
    while page := catalog.identities.page(page_key(found[-1], order) if found else None, size, EVERY, order):
        assert len(page) <= size
        found += page
    assert len(found) == len(ADDED)
    assert found == sorted(found, key=lambda image: page_key(image, order))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("cut", range(1, len(ADDED)))
def test_a_list_goes_on_where_it_was_though_its_last_picture_is_erased(
    tmp_path: Path, order: ImageOrder, several: bool, cut: int
) -> None:
    with closing(filled(tmp_path)) as catalog:

        def page(after: Image | None) -> list[Image]:
            if several:
                return catalog.identities.page(page_key(after, order) if after else None, 100, EVERY, order)
            place = ListPlace(after.image_id, after.taken_at, after.added_at) if after else None
            return catalog.list_images(place, 100, order=order)

        whole = page(None)
        last = whole[cut - 1]
        catalog.delete(last.image_id, 100.0)
        catalog.erasures.erase_deleted(101.0, 101.0, 10)
        catalog.erasures.forget(catalog.erasures.being_erased(10))
        assert page(last) == whole[cut:]
        catalog.take_in([picture(last.image_id)], 200.0)
        assert [one for one in page(last) if one.image_id != last.image_id] == whole[cut:]


@pytest.mark.parametrize(
    ("order", "after", "erased"), [("latest", "5", "3"), ("arrival", "3", "5"), ("date", "5", "3")]
)
def test_a_list_goes_on_where_it_was_though_its_last_picture_failed_and_was_sent_again(
    tmp_path: Path, order: ImageOrder, after: str, erased: str
) -> None:
    with closing(filled(tmp_path)) as catalog:
        catalog.queue.set_aside(after, "cannot be read", 61.0)
        whole = catalog.list_images(None, 100, order=order)
        last = next(image for image in whole if image.image_id == after)
        catalog.take_in([picture(after)], 200.0)
        catalog.delete(erased, 100.0)  # of the same upload
        catalog.erasures.erase_deleted(101.0, 101.0, 10)
        catalog.erasures.forget(catalog.erasures.being_erased(10))
        found = catalog.list_images(ListPlace(after, last.taken_at, last.added_at), 100, order=order)
        behind = [image.image_id for image in whole[whole.index(last) + 1 :] if image.image_id != erased]
        assert [image.image_id for image in found] == behind


def test_of_pictures_taken_in_together_and_erased_none_behind_is_passed_over(tmp_path: Path) -> None:
    with closing(filled(tmp_path)) as catalog:
        for order in ORDERS:
            with pytest.raises(ValueError, match="no picture"):
                catalog.list_images(ListPlace("unknown", added_at=60.0), 10, order=order)
        for name in ("3", "5"):  # of three of one moment
            catalog.delete(name, 100.0)
        catalog.erasures.erase_deleted(101.0, 101.0, 10)
        catalog.erasures.forget(catalog.erasures.being_erased(10))
        assert "4" in [one.image_id for one in catalog.list_images(ListPlace("5", added_at=60.0), 10)]
        assert "4" in [one.image_id for one in catalog.list_images(ListPlace("3", added_at=60.0), 10, order="latest")]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("latest", [IN_ONE, IN_SEVERAL], ids=["one", "several"])
def test_no_page_sorts_the_whole_table(tmp_path: Path, order: ImageOrder, latest: Any) -> None:
    database = Database(tmp_path / "catalog.sqlite")
    asked: list[str] = []
    with closing(database), database.reading() as db:
        db.set_trace_callback(asked.append)
        for part in range(len(list_parts(order, latest))):
            place = ListedAt(part, 1.0, "0" * 32 if latest is IN_SEVERAL else 1)
            page_rows(db, list_parts(order, latest), place, 10, EVERY)
            page_rows(db, list_parts(order, latest), None, 10, EVERY)
        db.set_trace_callback(None)
        plans = [row["detail"] for sql in asked for row in db.execute(f"EXPLAIN QUERY PLAN {sql}")]
    assert any("images" in plan for plan in plans)
    assert not any("TEMP B-TREE FOR ORDER BY" in plan for plan in plans), plans
