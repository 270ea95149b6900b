"""The worker: every accepted picture ends up once, whole and findable, or set aside with its reason."""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from index.catalog import Catalog
from index.entries import Image, NewPicture
from index.lock import Locked
from index.slab import Slab
from index.view import View
from models.extractor import Detections
from models.rows import Regions
from service import worker_process
from service.jobs import Wakeups
from service.originals import Incoming, Originals
from service.regions import region_layout
from service.settings import Settings
from service.worker import Worker
from service.worker_process import open_worker
from tests.fakes import D, FakeExtractor, FakeMatcher, R
from tests.pictures import corners, encoded
from tests.processes import wait_until

COLOURS = ("red", "lime", "blue", "yellow", "cyan", "magenta", "white", "black")
NOW = 1_700_000_000.0


def noise(seed: int, width: int = 24, height: int = 16) -> PIL.Image.Image:
    """A picture like no other."""
    return PIL.Image.frombytes("RGB", (width, height), random.Random(seed).randbytes(width * height * 3))


class Store:
    """A data directory as the web side sees it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = Catalog(folder / "catalog.sqlite")
        self.originals = Originals(folder)

    def accept(
        self, content: bytes, kind: str = "png", captions: Sequence[str] = (), taken: float | None = None
    ) -> str:
        """Take a file in as the web side does; its id."""
        image_id = hashlib.sha256(content).hexdigest()[:32]
        path = self.originals.incoming / image_id
        path.write_bytes(content)
        self.originals.store([Incoming(path, image_id, kind)])
        new = NewPicture(
            image_id=image_id,
            filename=f"{image_id}.{kind}",
            extension=kind,
            num_bytes=len(content),
            captions=captions,
            taken_at=taken,
        )
        self.catalog.accept([new], NOW)
        return image_id

    def image(self, image_id: str) -> Image:
        found = self.catalog.image(image_id)
        assert found is not None
        return found

    def settings(self, batch: int = 3) -> Settings:
        return Settings(data_dir=self.folder, detect_batch=batch, decode_workers=1)

    @contextmanager
    def worker(
        self,
        extractor: FakeExtractor | None = None,
        matchers: Sequence[FakeMatcher] | None = None,
        batch: int = 3,
    ) -> Iterator[tuple[Worker, Wakeups]]:
        matchers = [FakeMatcher()] if matchers is None else matchers
        with open_worker(self.settings(batch), extractor or FakeExtractor(), matchers) as opened:  # type: ignore[arg-type]
            yield opened

    def drain(self, extractor: FakeExtractor | None = None, matchers: Sequence[FakeMatcher] | None = None) -> None:
        """Work until nothing is left to do."""
        with self.worker(extractor, matchers) as (worker, _):
            while worker.run_once():
                pass

    def slab(self) -> Slab:
        return Slab.open(self.folder / "regions", region_layout(R, D), write=False)

    def check(self, pictures: dict[str, PIL.Image.Image], matcher: FakeMatcher | None = None) -> None:
        """Each of these is there once, with the regions and the view rows that it has when made alone."""
        matcher = matcher or FakeMatcher()
        slots = [self.image(image_id).slot for image_id in pictures]
        assert sorted(slots) == list(range(self.catalog.num_slots()))  # type: ignore[type-var]
        slab, view = self.slab(), View.open(self.folder / "views" / matcher.digest)
        assert view.counts == (self.catalog.num_slots(), self.catalog.num_caption_slots())
        for slot, picture in zip(slots, pictures.values(), strict=True):
            assert slot is not None
            slab.check(slot)
            record = {name: rows[0] for name, rows in slab.read([slot]).items()}
            alone = FakeExtractor().extract([picture])
            np.testing.assert_array_equal(record["features"], alone.features[0].half().numpy())
            np.testing.assert_array_equal(record["mask"], alone.mask[0].numpy())
            encoded_alone, embedding = matcher.encode_regions(
                Regions(torch.from_numpy(record["features"]).float()[None], alone.mask)
            )
            kept = view.read_images([slot])
            np.testing.assert_array_equal(kept["vectors"][0], encoded_alone.vectors[0].half().numpy())
            np.testing.assert_allclose(view.embedding_of(slot), embedding[0].numpy(), atol=1e-6)
        self._check_captions(view, matcher)
        slab.close()
        view.close()

    def _check_captions(self, view: View, matcher: FakeMatcher) -> None:
        for caption in self.catalog.captions_at(range(self.catalog.num_caption_slots())):
            assert caption.slot is not None
            words, _ = matcher.encode_sentences([caption.text])
            kept = view.read_captions([caption.slot])[0]
            np.testing.assert_array_equal(kept, words.vectors[0].half().numpy())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    yield made
    made.catalog.close()


# -- what becomes of pictures


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


def test_the_date_given_wins_over_the_cameras(store: Store) -> None:
    exif = PIL.Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2024:05:06 07:08:09"
    dated = store.accept(encoded(noise(1), "JPEG", exif=exif), "jpg")
    told = store.accept(encoded(noise(2), "JPEG", exif=exif), "jpg", taken=12.0)
    store.drain()
    assert store.image(dated).taken_at == 1714979289.0
    assert store.image(told).taken_at == 12.0


def test_a_damaged_picture_is_set_aside_at_once_and_leaves_no_gap(store: Store) -> None:
    whole = encoded(noise(1), "PNG")
    bad = store.accept(whole[: len(whole) // 2])
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in (2, 3, 4)}
    with store.worker() as (worker, _):
        worker.run_once()
        (failure,) = store.catalog.failures()
    assert (failure.image_id, failure.attempts) == (bad, 1)
    assert "damaged" in failure.reason
    store.drain()
    store.check(pictures)


def test_a_picture_whose_file_is_gone_is_tried_three_times(store: Store) -> None:
    lost = store.accept(encoded(noise(1), "PNG"))
    store.originals.path(lost, "png").unlink()
    pictures = {store.accept(encoded(noise(2), "PNG")): noise(2)}
    store.drain()
    (failure,) = store.catalog.failures()
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
    (failure,) = store.catalog.failures()
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
    assert [failure.attempts for failure in store.catalog.failures()] == [3]
    assert store.catalog.num_slots() == 0


def test_a_picture_deleted_while_it_waits_is_left_alone(store: Store) -> None:
    ids = [store.accept(encoded(noise(seed), "PNG")) for seed in range(5)]
    with store.worker(batch=2) as (worker, _):
        worker.run_once()
        store.catalog.delete(ids[2], NOW)  # its decoding is under way
        while worker.run_once():
            pass
    assert [store.image(image_id).slot for image_id in ids] == [0, 1, None, 2, 3]


def test_captions_that_come_later_are_taken_up(store: Store) -> None:
    content = encoded(noise(1), "PNG")
    image_id = store.accept(content, captions=["red"])
    store.drain()
    store.accept(content, captions=["red", "blue and green"])
    store.drain()
    store.check({image_id: noise(1)})
    assert store.catalog.num_caption_slots() == 2


class ShortSighted(FakeMatcher):
    """Finds no word in some captions."""

    def words(self, sentence: str) -> list[str]:
        if sentence == "unspeakable":
            raise ValueError("no word")
        return super().words(sentence)


def test_a_caption_that_a_model_cannot_read_holds_nothing_up(store: Store) -> None:
    store.accept(encoded(noise(1), "PNG"), captions=["red", "unspeakable", "blue"])
    store.drain(matchers=[ShortSighted()])
    view = View.open(store.folder / "views" / "fake-matcher")
    assert view.counts == (1, 3)
    assert [len(words) for words in view.read_captions([0, 1, 2])] == [3, 3, 3]
    view.close()


# -- starting, stopping, and what is refused


def test_a_new_models_view_is_built_without_new_detection(store: Store) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG"), captions=["red"]): noise(seed) for seed in range(6)}
    store.drain(matchers=[])
    other = FakeMatcher(name="other", digest="other-matcher")
    with store.worker(Picky(), [FakeMatcher(), other]) as (worker, _):
        while worker.run_once():
            pass
    store.check(pictures)
    store.check(pictures, other)


def test_a_model_of_another_extractor_is_refused_in_words(store: Store) -> None:
    stranger = FakeMatcher(name="stranger", extractor_digest="another")
    with (
        pytest.raises(ValueError, match="stranger was trained on features of the extractor another"),
        store.worker(matchers=[stranger]),
    ):
        pass


def test_features_of_two_extractors_are_not_mixed(store: Store) -> None:
    store.accept(encoded(noise(1), "PNG"))
    store.drain()
    matcher = FakeMatcher(extractor_digest="another")
    with (
        pytest.raises(ValueError, match="found by the extractor fake-extractor"),
        store.worker(FakeExtractor("another"), [matcher]),
    ):
        pass


def test_there_is_one_worker_a_data_directory(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "LOCK_PATIENCE_S", 0.0)
    with store.worker(), pytest.raises(Locked), store.worker():
        pass
    with store.worker():
        pass


@pytest.mark.parametrize("lost", [1, 3, 7])
def test_regions_lost_from_the_disk_are_found_again(store: Store, lost: int) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(7)}
    store.drain()
    before = store.slab().read(range(7))
    records = store.folder / "regions" / "records.bin"
    content = records.read_bytes()
    size = len(content) // 7
    records.write_bytes(content[: -lost * size] + bytes(lost * size))
    store.drain()
    store.check(pictures)
    after = store.slab().read(range(7))
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


def test_all_regions_lost_are_found_again_but_those_of_deleted_pictures(store: Store) -> None:
    ids = [store.accept(encoded(noise(seed), "PNG")) for seed in range(4)]
    store.drain()
    before = store.slab().read(range(4))
    store.catalog.delete(ids[1], NOW)
    shutil.rmtree(store.folder / "regions")
    store.drain()
    after = store.slab().read(range(4))
    np.testing.assert_array_equal(after["mask"][1], False)
    for slot in (0, 2, 3):
        np.testing.assert_array_equal(after["features"][slot], before["features"][slot])


def test_what_dead_uploads_left_is_removed_at_the_start(store: Store) -> None:
    stray = store.originals.incoming / "stray"
    stray.mkdir()
    (stray / "0").write_bytes(b"half a picture")
    with store.worker():
        assert list(store.originals.incoming.iterdir()) == []


def test_the_worker_is_heard_from(store: Store) -> None:
    assert store.catalog.last_heartbeat("worker") is None
    before = time.time()
    store.drain()
    heard = store.catalog.last_heartbeat("worker")
    assert heard is not None
    assert heard >= before


class Stopping(FakeExtractor):
    """Asks the worker to stop while it is at work."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        self._stop.set()
        return super().extract(pictures)


def test_a_stop_lets_the_batch_in_hand_finish(store: Store) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(9)}
    stop = threading.Event()
    with store.worker(Stopping(stop)) as (worker, wakeups):
        worker.run(wakeups, stop)
    assert store.catalog.counts()["ready"] == 3
    store.drain()
    store.check(pictures)


# -- as a process


def test_a_worker_killed_at_any_moment_loses_and_repeats_nothing(store: Store) -> None:
    rng = random.Random(7)
    pictures: dict[str, PIL.Image.Image] = {}
    command = [sys.executable, "-m", "tests.fake_worker", str(store.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None

        def start() -> int:
            assert program.stdin is not None
            assert program.stdout is not None
            print(file=program.stdin, flush=True)
            return int(program.stdout.readline())

        for _ in range(20):
            worker = start()
            for _ in range(rng.randrange(4)):
                seed = len(pictures)
                captions = [f"number {seed}", f"{COLOURS[seed % 8]} on {COLOURS[seed // 8 % 8]}"][: seed % 3]
                pictures[store.accept(encoded(noise(seed), "PNG"), captions=captions)] = noise(seed)
                time.sleep(rng.random() * 0.1)
            time.sleep(rng.random() * 0.3)
            os.kill(worker, signal.SIGKILL)
            assert int(program.stdout.readline()) == signal.SIGKILL
        worker = start()
        wait_until(lambda: store.catalog.counts()["queued"] == 0 and view_is_whole(store))
        os.kill(worker, signal.SIGTERM)
        assert int(program.stdout.readline()) == 0
        program.stdin.close()
    assert len(pictures) > 20
    assert store.catalog.counts() == {"ready": len(pictures), "queued": 0, "failed": 0, "deleted": 0}
    store.check(pictures)


def view_is_whole(store: Store) -> bool:
    view = View.open(store.folder / "views" / "fake-matcher")
    try:
        return view.counts == (store.catalog.num_slots(), store.catalog.num_caption_slots())
    finally:
        view.close()


def test_a_worker_ends_with_the_process_that_started_it(store: Store) -> None:
    command = [sys.executable, "-m", "tests.fake_worker", str(store.folder), "--once"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        wait_until(lambda: store.catalog.last_heartbeat("worker") is not None)
        process.stdin.close()  # as the kernel does for a parent that was killed
        process.wait()
    with store.worker():
        pass
