"""Pictures whose regions came with them go to no detector, and end up as any others."""

from collections.abc import Iterator
from pathlib import Path

import PIL.Image
import pytest

from service.storage.regions.found_regions import FoundRegions, serialised_regions
from service.storage.regions.records import pack
from tests.support.fakes import CountingExtractor, FakeExtractor
from tests.support.kill_points import decode_here
from tests.support.pictures import encoded
from tests.support.worker_store import Store, noise


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    decode_here(monkeypatch)
    made = Store(tmp_path)
    yield made
    made.catalog.close()


def serialised(picture: PIL.Image.Image, extractor: FakeExtractor | None = None) -> bytes:
    found = pack(FakeExtractor().extract([picture]), [(1.0, 1.0)])
    return serialised_regions(extractor or FakeExtractor(), {name: rows[0] for name, rows in found.items()})


def test_regions_that_came_are_taken_and_others_are_found(store: Store) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(5)}
    first, second, third, damaged, _ = pictures
    found = FoundRegions(store.folder)
    found.put(first, serialised(pictures[first]))
    found.put(second, serialised(pictures[second]))
    found.put(third, serialised(pictures[first], FakeExtractor("another")))
    found.put(damaged, serialised(pictures[first])[:-1])
    found.put("0" * 32, serialised(pictures[first]))
    extractor = CountingExtractor()
    store.drain(extractor)
    store.check(pictures)
    assert extractor.looked_at == 3
    assert list((store.folder / "found").iterdir()) == []
