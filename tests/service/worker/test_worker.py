"""Every accepted picture ends up once, whole and findable, or set aside with its reason."""

import errno
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import numpy as np
import PIL.Image
import pytest
import torch

from index import files
from index.catalog.database import connection
from index.catalog.filters import Filter
from index.records import PictureChange
from models.extractors.base import Detections
from service.media.decode_pool import DecodedPicture, DecodeFailed
from service.media.perceptual_hash import perceptual_hash
from service.worker import process
from service.worker import worker as worker_module
from service.worker.detection import records_of_readable
from tests.support.catalog_captions import captions_of
from tests.support.described_pictures import described, jpeg
from tests.support.fakes import FakeExtractor
from tests.support.kill_points import DecodeHere
from tests.support.pictures import corners, encoded
from tests.support.worker_store import COLOURS, NOW, Store, noise


def test_every_picture_ends_up_with_regions_view_rows_and_thumbnail(store: Store) -> None:
    pictures = {}
    for seed in range(8):
        captions = [f"{COLOURS[seed]} picture", "seen from afar by many people"][: seed % 3]
        pictures[store.accept(encoded(noise(seed), "PNG"), captions=captions)] = noise(seed)
    store.drain()
    store.check(pictures)
    assert store.catalog.counts() == {"ready": 8, "queued": 0, "failed": 0, "deleted": 0}
    for image_id in pictures:
        assert store.image(image_id).extractor == "fake-extractor"
        with PIL.Image.open(store.originals.thumbnail(image_id)) as thumbnail:
            assert thumbnail.size == (24, 16)


def test_boxes_and_size_are_those_of_the_full_upright_picture(store: Store) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    stored = corners(2000, 3000).transpose(PIL.Image.Transpose.ROTATE_90)
    image_id = store.accept(encoded(stored, "JPEG", exif=exif), "jpg")
    store.drain()
    image = store.image(image_id)
    assert (image.width, image.height) == (2000, 3000)
    slab = store.slab()
    boxes = slab.read([0])["boxes"][0]
    slab.close()
    np.testing.assert_allclose(boxes[0], [0, 0, 2000, 3000])
    np.testing.assert_allclose(boxes[1], [0, 0, 1000, 3000], atol=3)


def test_the_date_given_wins_over_the_cameras_and_that_over_the_names(store: Store) -> None:
    exif = PIL.Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2024:05:06 07:08:09"
    name = "WhatsApp/IMG-20230315-WA0001.jpg"
    dated = store.accept(encoded(noise(1), "JPEG", exif=exif), "jpg", name=name)
    told = store.accept(encoded(noise(2), "JPEG", exif=exif), "jpg", taken=12.0, name=name)
    named, said = (
        store.accept(encoded(noise(3 + n), "PNG"), taken=taken, name=name) for n, taken in enumerate((None, 12.0))
    )
    store.drain()
    assert store.image(dated).taken_at == 1714979289.0
    assert store.image(named).taken_at == 1678838400.0
    assert store.image(told).taken_at == store.image(said).taken_at == 12.0


def test_what_a_file_says_joins_what_was_said_of_it(store: Store) -> None:
    said = described("our zeppelin", "beach", "Oma")
    image_id = store.accept(jpeg(said), "jpg", captions=["given"])
    tagged = store.accept(jpeg(said, picture=noise(1)), "jpg")
    store.catalog.change(tagged, PictureChange(tags={"keywords": "mine"}))
    store.drain()
    image = store.image(image_id)
    assert (image.captions, dict(image.tags)) == (("given", "our zeppelin"), {"keywords": "beach; Oma"})
    assert [caption.slot for caption in captions_of(store.catalog, [image_id])[image_id]] == [0, 1]
    assert store.image(tagged).tags == {"keywords": "mine"}
    found = store.catalog.texts.matches("zeppelin oma", 9, Filter())
    assert [match.image.image_id for match in found] == [image_id]


def test_every_picture_gets_a_hash_of_what_it_looks_like(store: Store) -> None:
    new = store.accept(encoded(corners(), "PNG"))
    store.drain()
    assert store.image(new).perceptual_hash == perceptual_hash(corners())
    plain = store.accept(encoded(PIL.Image.new("RGB", (9, 9), "red"), "PNG"))
    gone = store.accept(encoded(noise(1), "PNG"))
    store.drain()
    with closing(sqlite3.connect(store.folder / "catalog.sqlite")) as database:  # as an older release left them
        database.execute("UPDATE images SET looks = NULL")
        database.commit()
    store.originals.path(gone, "png").unlink()
    assert len(store.catalog.hashes.missing(9)) == 3
    store.drain()
    assert [store.image(one).perceptual_hash for one in (new, plain, gone)] == [perceptual_hash(corners()), b"", None]
    assert [picture.image_id for picture in store.catalog.hashes.missing(9)] == [gone]  # its file may come back


def test_a_damaged_picture_is_set_aside_at_once_and_leaves_no_gap(store: Store) -> None:
    whole = encoded(noise(1), "PNG")
    bad = store.accept(whole[: len(whole) // 2])
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in (2, 3, 4)}
    with store.worker() as (worker, _):
        worker.run_once()
        (failure,) = store.catalog.failures.page()
    assert (failure.image_id, failure.attempts) == (bad, 1)
    assert "damaged" in failure.reason
    store.drain()
    store.check(pictures)


def test_a_picture_whose_file_is_gone_is_tried_three_times(store: Store) -> None:
    lost = store.accept(encoded(noise(1), "PNG"))
    store.originals.path(lost, "png").unlink()
    pictures = {store.accept(encoded(noise(2), "PNG")): noise(2)}
    store.drain()
    (failure,) = store.catalog.failures.page()
    assert (failure.image_id, failure.attempts) == (lost, 3)
    store.check(pictures)


class Picky(FakeExtractor):
    """Fails on whatever batch holds a red picture, and the first time on any."""

    calls = 0

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        self.calls += 1
        if self.calls == 1 or any(picture.getpixel((0, 0)) == (255, 0, 0) for picture in pictures):
            raise RuntimeError("the detector does not like this")
        return super().extract(pictures)


def test_a_picture_the_detector_fails_on_costs_no_other_one(store: Store) -> None:
    red = store.accept(encoded(PIL.Image.new("RGB", (20, 20), "red"), "PNG"))
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(5)}
    store.drain(Picky())
    (failure,) = store.catalog.failures.page()
    assert (failure.image_id, failure.attempts) == (red, 3)
    assert "does not like this" in failure.reason
    store.check(pictures)


class Overflowing(FakeExtractor):
    """Features too large for fp16."""

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        found = super().extract(pictures)
        return Detections(found.features * 1e6, found.boxes, found.labels, found.confidence, found.mask)


def test_features_that_are_no_numbers_are_not_stored(store: Store) -> None:
    store.accept(encoded(noise(1), "PNG"))
    store.drain(Overflowing())
    assert [failure.attempts for failure in store.catalog.failures.page()] == [3]
    assert store.catalog.num_slots() == 0


def test_a_picture_deleted_while_it_waits_is_left_alone(store: Store) -> None:
    ids = [store.accept(encoded(noise(seed), "PNG")) for seed in range(5)]
    with store.worker(batch=2) as (worker, _):
        worker.run_once()
        store.catalog.delete(ids[2], NOW)  # its decoding is under way
        while worker.run_once():
            pass
    assert [store.image(image_id).slot for image_id in ids] == [0, 1, None, 2, 3]


class Failing(FakeExtractor):
    """Fails on more pictures than `most` at a time."""

    def __init__(self, fault: Exception, most: int = 0) -> None:
        super().__init__()
        self.fault, self.most = fault, most

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        if len(pictures) > self.most:
            raise self.fault
        return super().extract(pictures)


@pytest.mark.parametrize(
    "fault", [torch.AcceleratorError("unspecified launch failure"), torch.OutOfMemoryError("full")]
)
def test_a_device_that_is_lost_or_full_ends_the_worker_and_blames_no_picture(store: Store, fault: Exception) -> None:
    for seed in range(2):
        store.accept(encoded(noise(seed), "PNG"))
    with store.worker(Failing(fault)) as (worker, _), pytest.raises(type(fault)):
        worker.run_once()
    assert [(waiting.attempts, waiting.starts) for waiting in store.catalog.queue.waiting(10)] == [(0, 0)] * 2


class Filling(FakeExtractor):
    """Has what a device has no more room for while more than one picture is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = weakref.WeakSet[torch.Tensor]()

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        if self.taken:
            raise torch.OutOfMemoryError("full")
        held = torch.zeros(len(pictures))
        self.taken.add(held)
        if len(pictures) > 1:
            raise torch.OutOfMemoryError("full")
        return super().extract(pictures)


def test_what_pictures_took_of_a_device_together_is_free_when_they_are_looked_at_one_by_one(store: Store) -> None:
    ids = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(5)}
    with store.worker(Filling()) as (worker, _):
        while worker.run_once():
            pass
    store.check(ids)


@pytest.mark.parametrize("fault", [torch.OutOfMemoryError("full"), RuntimeError("odd")])
def test_pictures_that_the_detector_fails_on_together_are_looked_at_one_by_one(store: Store, fault: Exception) -> None:
    ids = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(3)}
    with store.worker(Failing(fault, most=1)) as (worker, _):
        while worker.run_once():
            pass
    store.check(ids)
    pictures = [DecodedPicture(noise(seed), *noise(seed).size, None) for seed in range(3)]
    records, failed = records_of_readable(Failing(fault, most=1), pictures)
    assert failed == {}
    assert records["mask"].any(axis=1).all()


def test_a_place_that_takes_no_thumbnail_keeps_no_picture_from_being_found(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(4)}
    image_id = next(iter(pictures))
    place = store.originals.thumbnail(image_id).parent.parent
    place.write_bytes(b"a file where a folder must be")
    store.drain()
    store.check(pictures)
    assert caplog.text.count("the thumbnail cannot be written") == 2  # as it was taken in, and at rest
    store.drain()  # a worker that looks for files that are missing is no worse off
    place.unlink()
    store.drain()
    assert store.originals.find_thumbnail(image_id) is not None


def test_what_has_no_thumbnail_is_erased(store: Store) -> None:
    image_id = store.accept(encoded(noise(1), "PNG"))
    place = store.originals.thumbnail(image_id).parent.parent
    place.write_bytes(b"a file where a folder must be")
    store.drain()
    store.catalog.delete(image_id, NOW - 1e13)  # out of the grace of this store
    store.drain()
    assert not store.originals.path(image_id, "png").exists()


def test_a_full_disk_blames_no_picture(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    image_id = store.accept(encoded(noise(1), "PNG"))

    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched, store.worker() as (worker, _):
        patched.setattr(files, "reach", full)
        with pytest.raises(OSError, match="thumbnail"):
            worker.run_once()
    store.drain()
    store.check({image_id: noise(1)})


def test_a_worker_waits_for_a_catalog_that_is_kept_for_long(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    image_id = store.accept(encoded(noise(1), "PNG"))
    monkeypatch.setattr(worker_module, "PAUSE_S", 0.0)
    with store.worker() as (worker, _):
        with closing(sqlite3.connect(store.folder / "catalog.sqlite")) as other, monkeypatch.context() as impatient:
            impatient.setattr(connection, "BUSY_SECONDS", 0.0)
            other.execute("BEGIN IMMEDIATE")
            assert [worker.run_within_space(threading.Event()) for _ in range(2)] == [True, True]
        assert caplog.text.count("another process keeps the catalog") == 1
        while worker.run_once():  # the same one goes on
            pass
    store.check({image_id: noise(1)})


class Hanging(DecodeHere):
    """Times out on pictures wider than others, and notes the order of all attempts."""

    tried: ClassVar[list[int]] = []

    def decode(
        self, path: Path, thumbnail: Path | None = None, stripped: Path | None = None, with_coordinates: bool = False
    ) -> DecodedPicture:
        found = super().decode(path, thumbnail, stripped, with_coordinates)
        self.tried.append(found.width)
        if found.width > 24:
            raise DecodeFailed("it took longer than 20 s", final=False, timed_out=True)
        return found


def test_a_picture_that_times_out_is_tried_once_more_at_the_back_of_the_queue(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "DecodePool", Hanging)
    Hanging.tried = []
    slow = store.accept(encoded(noise(1, width=30), "PNG"))
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(2, 9)}
    store.drain()
    assert Hanging.tried == [30, *[24] * 7, 30]
    (failure,) = store.catalog.failures.page()
    assert (failure.image_id, failure.attempts) == (slow, 2)
    store.check(pictures)


def shown_format(store: Store, image_id: str) -> str | None:
    path = store.originals.find_stripped(image_id, store.image(image_id).extension)
    assert path is not None
    with PIL.Image.open(path) as image:
        image.load()
        return image.format


def lose(path: Path) -> None:
    path.unlink(missing_ok=True)


def empty(path: Path) -> None:
    if path.exists():
        path.unlink()  # it may be the original by another name
        path.touch()


@pytest.mark.parametrize("harm", [lose, empty])
def test_every_picture_has_a_file_to_show_and_a_thumbnail(store: Store, harm: Callable[[Path], None]) -> None:
    ids = [store.accept(encoded(noise(1), "PNG")), store.accept(encoded(noise(2), "TIFF"), "tif")]
    store.drain()
    assert [shown_format(store, image_id) for image_id in ids] == ["PNG", "JPEG"]
    for image_id in ids:
        for path in store.originals.derived_files(image_id, store.image(image_id).extension):
            harm(path)
    store.drain()  # as after a power cut, or in a data directory from before such files were kept
    assert [shown_format(store, image_id) for image_id in ids] == ["PNG", "JPEG"]
    for image_id in ids:
        with PIL.Image.open(store.originals.thumbnail(image_id)) as thumbnail:
            assert thumbnail.size == (24, 16)


def test_a_file_to_show_that_cannot_be_made_stops_nothing(store: Store) -> None:
    ids = [store.accept(encoded(noise(seed), "PNG")) for seed in range(3)]
    store.drain()
    for image_id in ids:
        store.originals.stripped(image_id, "png").unlink()
    store.originals.path(ids[0], "png").write_bytes(b"damaged since")
    store.originals.path(ids[1], "png").unlink()
    store.drain()
    assert [store.originals.find_stripped(image_id, "png") is None for image_id in ids] == [True, True, False]
