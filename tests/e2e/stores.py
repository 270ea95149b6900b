"""Conditions that hold on disk while nobody writes."""

from pathlib import Path

from index.catalog.catalog import Catalog
from index.views.view import View
from service.storage.regions.records import RecordLayout

NUM_REGIONS, FEATURE_DIM = 36, 768  # of the shipped detector


def assert_whole(data: Path, accepted: set[str]) -> None:
    """Every accepted picture has one slot, a record that checks and a row in every view; nothing else is there."""
    catalog = Catalog(data / "catalog.sqlite")
    images = [catalog.image(image_id) for image_id in sorted(accepted)]
    assert all(image is not None and image.state == "ready" for image in images)
    slots = sorted(image.slot for image in images if image is not None and image.slot is not None)
    assert slots == list(range(len(accepted)))
    assert catalog.num_slots() == len(accepted)
    originals = [path.stem for path in (data / "originals").rglob("*") if path.is_file()]
    assert sorted(originals) == sorted(accepted)
    for folder in (data / "views").iterdir():
        view = View(folder).snapshot()
        assert view.counts.images == len(accepted)
        assert view.counts.captions == catalog.num_caption_slots()
    catalog.close()
    assert_records_check(data / "regions", len(accepted))


def assert_records_check(folder: Path, count: int) -> None:
    """The first `count` records of a slab are what was written."""
    slab = RecordLayout(NUM_REGIONS, FEATURE_DIM).open(folder, write=False)
    for row in range(count):
        slab.check(row)
