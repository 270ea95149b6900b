"""A catalog whose disk goes away is missed, not made anew; one that comes back is read on."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from index.catalog.database.faults import MissingCatalog
from tests.support.catalogs import picture


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with closing(Catalog(tmp_path / "data" / "catalog.sqlite")) as catalog:
        catalog.take_in([picture("a")], 1.0)
        yield catalog


def uses(catalog: Catalog) -> list[Callable[[], object]]:
    """Each way in which a catalog is read or changed."""
    return [
        catalog.version,
        catalog.counts,
        lambda: catalog.take_in([picture("b")], 2.0).job_id,
        lambda: catalog.processes.heartbeat("worker", 2.0),
        catalog.check_in_place,
        catalog.erasures.fold_log,
    ]


def all_miss_it(catalog: Catalog) -> None:
    """In a thread that used it before, and in a new one."""
    with ThreadPoolExecutor(1) as threads:
        for use in uses(catalog):
            for call in (use, threads.submit(use).result):
                with pytest.raises(MissingCatalog, match=r"catalog\.sqlite is not there any more"):
                    call()


@pytest.mark.parametrize("mount_point", [False, True])
def test_one_that_goes_away_is_missed_and_nothing_made_in_its_place(
    catalog: Catalog, tmp_path: Path, mount_point: bool
) -> None:
    place = tmp_path / "data"
    place.rename(tmp_path / "moved")
    if mount_point:  # what is left where a disk was mounted
        place.mkdir()
    all_miss_it(catalog)
    assert list(place.iterdir() if mount_point else tmp_path.iterdir()) == ([] if mount_point else [tmp_path / "moved"])
    if mount_point:
        place.rmdir()
    (tmp_path / "moved").rename(place)
    assert catalog.known_ids(["a"]) == {"a"}
    catalog.take_in([picture("b")], 2.0)
    with closing(Catalog(place / "catalog.sqlite")) as again:
        assert again.known_ids(["a", "b"]) == {"a", "b"}


def test_another_collection_in_its_place_is_not_taken_for_it(catalog: Catalog, tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.rename(tmp_path / "moved")
    file = place / "catalog.sqlite"
    makes: tuple[Callable[[], None], ...] = (lambda: Catalog(file).close(), file.touch)
    for make in makes:
        place.mkdir()
        make()
        before = (place / "catalog.sqlite").read_bytes()
        all_miss_it(catalog)
        assert (place / "catalog.sqlite").read_bytes() == before
        shutil.rmtree(place)


def test_the_same_collection_in_another_file_is_read_on(catalog: Catalog, tmp_path: Path) -> None:
    place = tmp_path / "data"
    catalog.erasures.fold_log()
    shutil.copytree(place, tmp_path / "copy")
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(catalog.counts).result()["queued"] == 1
        shutil.rmtree(place)
        all_miss_it(catalog)
        (tmp_path / "copy").rename(place)
        assert threads.submit(catalog.counts).result() == catalog.counts()
        catalog.take_in([picture("b")], 2.0)
        assert threads.submit(catalog.counts).result()["queued"] == 2
