"""Regions that travel arrive as they were found, or not at all."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.storage.regions.found_regions import (
    FoundRegions,
    deserialised_regions,
    regions_are_whole,
    serialised_regions,
)
from service.storage.regions.records import pack
from tests.support.fakes import FakeExtractor
from tests.support.pictures import corners

EXTRACTOR = FakeExtractor()
RECORD = {name: rows[0] for name, rows in pack(EXTRACTOR.extract([corners(40, 30)]), [(2.0, 3.0)]).items()}
SERIALISED = serialised_regions(EXTRACTOR, RECORD)


def test_regions_arrive_as_they_were_found() -> None:
    found = deserialised_regions(EXTRACTOR, SERIALISED)
    assert found is not None
    assert regions_are_whole(SERIALISED)
    assert list(found) == list(RECORD)
    for name, array in RECORD.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@given(st.data())
def test_damaged_regions_are_none(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(SERIALISED) - 1))
    damaged = bytearray(SERIALISED)
    damaged[place] ^= data.draw(st.integers(1, 255))
    for wrong in (bytes(damaged), SERIALISED[:place], SERIALISED + b"\0"):
        found = deserialised_regions(EXTRACTOR, wrong)
        # What the line says besides may change its spelling, never what it describes.
        assert found is None or all(np.array_equal(found[name], RECORD[name]) for name in RECORD)
        assert not regions_are_whole(wrong) or wrong.partition(b"\n")[2] == SERIALISED.partition(b"\n")[2]


def test_those_of_another_detector_are_none() -> None:
    assert deserialised_regions(FakeExtractor("another"), SERIALISED) is None


def test_what_nobody_waits_for_is_removed(tmp_path: Path) -> None:
    folder = FoundRegions(tmp_path)
    folder.remove_stale(lambda image_id: False)
    for name in ("one", "two"):
        folder.put(name, SERIALISED)
    assert folder.get("one", EXTRACTOR) is not None
    folder.remove("one")
    folder.remove("one")
    assert folder.get("one", EXTRACTOR) is None
    folder.put("one", SERIALISED)
    folder.remove_stale(lambda image_id: image_id == "one")
    assert (folder.get("one", EXTRACTOR) is None, folder.get("two", EXTRACTOR) is None) == (False, True)
