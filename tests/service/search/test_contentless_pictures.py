"""Pictures that show nothing come before no others, and what shows little is none of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageDraw
import pytest

from index.records import NewPicture
from index.views.slab import Corrupt
from models.extractors.registry import load_extractor
from service.media.perceptual_hash import perceptual_hash
from service.search.contentless_pictures import AGAIN_S, LEAST_SURE, ContentlessPictures
from service.search.requests import PictureFilter
from service.storage.regions.records import RecordLayout, RegionStore, pack
from tests.support.library import NOW, Library, image_id_of, two_coloured
from tests.support.project_files import ROOT
from tests.support.set_clock import Clock


def add(library: Library, name: str, width: int) -> str:
    """A red picture; the fake detector is sure of nothing in one narrower than 8 pixels."""
    image_id = image_id_of(name)
    odd: dict[str, Any] = {"image_id": image_id, "filename": f"{name}.png", "extension": "png", "num_bytes": 1}
    library.catalog.take_in([NewPicture(**odd, tags={"album": "Odd"})], NOW)
    picture = PIL.Image.new("RGB", (width, width), "red")
    library.commit(image_id, picture, perceptual_hash=perceptual_hash(picture))
    library.catch_up()
    return image_id


def test_what_shows_nothing_comes_before_no_others(library: Library) -> None:
    blank = add(library, "scan", 6)
    assert [hit.image_id for hit in library.text("red").results] == [blank]  # there are no others yet
    other, sure = library.add("beach", two_coloured("blue", "green")), add(library, "bird", 40)
    assert [hit.image_id for hit in library.text("red").results] == [sure, other]
    assert library.text("scan", match="both").results[0].image_id == blank
    odd = PictureFilter(tags={"album": "Odd"})
    assert [hit.image_id for hit in library.text("red", filter=odd).results] == [sure]
    library.catalog.delete(sure, NOW)
    assert [hit.image_id for hit in library.text("red", filter=odd).results] == [blank]


class Sureness:
    """A region store whose detector is as sure of every picture, or whose records are damaged."""

    def __init__(self) -> None:
        self.sure: float | Exception = 0.1
        self.asked = list[list[int]]()

    def confidence_of_second(self, slots: Sequence[int]) -> npt.NDArray[np.float32]:
        self.asked.append(list(slots))
        if isinstance(self.sure, Exception):
            raise self.sure
        return np.full(len(slots), self.sure, np.float32)


def test_each_slot_is_looked_at_once_an_edition(library: Library) -> None:
    add(library, "scan", 6)
    clock, regions = Clock(), Sureness()
    contentless, store = ContentlessPictures(library.catalog.hashes, clock), cast(Any, regions)
    assert [contentless.slots("e", store, 1, "first") for _ in range(2)] == [[0], [0]]
    regions.sure = 0.9  # found anew
    assert [contentless.slots("e", store, 1, "second") for _ in range(2)] == [[], []]
    regions.sure = Corrupt("row 0 does not match its checksum")
    assert [contentless.slots("e", store, 1, "third") for _ in range(2)] == [[], []]
    add(library, "page", 6)
    regions.sure = 0.1
    assert contentless.slots("e", store, 2, "third") == [1]
    assert regions.asked == [[0], [0], [0], [1]]
    assert [contentless.slots(view, store, 2, view) for view in ("f", "g", "f", "g")] == [[0, 1]] * 4
    assert len(regions.asked) == 6, "two models that are asked in turns are not looked at anew each time"
    regions.sure = OSError("the disk does not answer")
    assert [contentless.slots("e", store, 2, "fourth") for _ in range(2)] == [[], []]
    assert len(regions.asked) == 7, "not with each search"
    regions.sure, clock.now = 0.1, clock.now + AGAIN_S
    assert contentless.slots("e", store, 2, "fourth") == [0, 1]


def test_those_whose_hashes_come_later_are_found_then(library: Library) -> None:
    blank, hashes = add(library, "scan", 6), library.catalog.hashes
    library.add("beach", two_coloured("red", "green"))
    hashes.add({blank: None})  # type: ignore[dict-item]
    assert len(library.text("red").results) == 2
    hashes.add({blank: b""})
    hashes.end_round()
    assert len(library.text("red").results) == 1
    version = library.catalog.version()
    hashes.end_round()
    assert (library.catalog.version(), hashes.rounds()) == (version, 1), "a round without a hash writes nothing"


def test_a_sky_shows_something(library: Library) -> None:
    sky = PIL.Image.linear_gradient("L").resize((64, 48)).point(lambda grey: 190 - grey // 10).convert("RGB")
    for name, picture in (("sky", sky), ("wall", PIL.Image.new("RGB", (64, 48), "white"))):
        new = NewPicture(image_id=image_id_of(name), filename=f"{name}.png", extension="png", num_bytes=1)
        library.catalog.take_in([new], NOW)
        library.commit(image_id_of(name), picture, perceptual_hash=perceptual_hash(picture))
    assert library.catalog.hashes.plain_slots(0, 2) == [1]


@pytest.mark.slow
def test_the_shipped_detector_is_sure_of_something_in_what_shows_little(tmp_path: Path) -> None:
    """A bird in the sky has no hash either."""
    detector = load_extractor(ROOT / "models" / "weights" / "detector")
    sky = PIL.Image.new("RGB", (640, 480), (150, 190, 235))
    bird, page = sky.copy(), PIL.Image.linear_gradient("L").resize((480, 640)).point(lambda grey: 225 + grey // 10)
    PIL.ImageDraw.Draw(bird).line((272, 206, 300, 220, 328, 206), fill=(20, 20, 25), width=3)
    pictures = [sky, page.convert("RGB"), PIL.Image.new("RGB", (3, 2), "blue"), bird]
    slab = RecordLayout.of(detector).open(tmp_path, write=True)
    slab.append(0, pack(detector.extract(pictures), [(1.0, 1.0)] * 4))
    sure = RegionStore(tmp_path, detector).confidence_of_second(range(4))
    assert [one < LEAST_SURE for one in sure] == [True, True, True, False]
