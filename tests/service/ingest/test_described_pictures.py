"""Descriptions of pictures that are known already: of one that says too much, no more is taken."""

from pathlib import Path

from index.catalog.catalog import Catalog
from index.catalog.changes.description_bounds import MOST_CAPTIONS
from service.ingest.described_pictures import DescribedPictures
from tests.support.catalogs import picture


def test_a_picture_that_says_too_much_of_old_can_be_sent_again(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.sqlite")
    captions = [f"caption {number}" for number in range(MOST_CAPTIONS + 200)]
    catalog.take_in([picture("a", captions=captions)], 1.0, bounded=False)
    described = DescribedPictures(catalog.image)
    assert described.add("a", [], ["album"]) is None
    assert described.add("a", captions[:5], []) is None  # which it has
    assert f"would have {len(captions) + 1} captions" in (described.add("a", ["one more"], []) or "")
    assert described.tags("a", {}, {"place": "home"}) == {}  # it is no new one
    catalog.close()
