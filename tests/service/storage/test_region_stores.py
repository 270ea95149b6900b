"""Region stores: which slots have a record, and how long a migration will still take, in words."""

from contextlib import closing
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from index.records import RegionStoreEntry
from service.dates import duration
from service.storage.data_dir import DataDir
from service.storage.regions.stores import RegionStores
from tests.support.fakes import FakeExtractor


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 second"), (100, "100 seconds"), (840, "14 minutes"), (20_000, "6 hours")]
)
def test_durations_are_said_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_store_of_three_records_has_none_at_slot_three(tmp_path: Path) -> None:
    extractor = FakeExtractor()
    data = DataDir(tmp_path)
    with closing(Catalog(data.catalog)) as catalog:
        entry = RegionStoreEntry(extractor=extractor.digest, folder="regions", state="current", records=3)
        catalog.region_stores.replace([entry])
        with closing(RegionStores(data, catalog, extractor)) as stores:
            assert [stores.has_record(extractor.digest, slot) for slot in (0, 2, 3)] == [True, True, False]
            assert not stores.has_record("another", 0)
