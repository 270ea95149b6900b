"""A data directory as the web process uses it, with a worker on fakes, and checks of the final state."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import torch

from index.catalog.catalog import Catalog
from index.records import Image, NewPicture
from index.views.slab import Slab
from index.views.view import Snapshot, View
from models.batches import Regions
from models.matching.lazy_matcher import LazyMatcher
from models.matching.matcher import Matcher
from service.clocks import THIS_MACHINE, Clocks
from service.settings import Settings
from service.storage.originals import Originals, StagedFile
from service.storage.regions.records import RecordLayout
from service.worker.process import open_worker
from service.worker.wakeups import Wakeups
from service.worker.worker import Worker
from tests.support.fakes import D, FakeExtractor, FakeMatcher, R
from tests.support.small_views import embedding_of

COLOURS = ("red", "lime", "blue", "yellow", "cyan", "magenta", "white", "black")
NOW = 1_700_000_000.0


def noise(seed: int, width: int = 24, height: int = 16) -> PIL.Image.Image:
    """A picture of random noise."""
    return PIL.Image.frombytes("RGB", (width, height), random.Random(seed).randbytes(width * height * 3))


class Store:
    """A data directory as the web side sees it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = Catalog(folder / "catalog.sqlite")
        self.originals = Originals(folder)

    def accept(
        self,
        content: bytes,
        kind: str = "png",
        captions: Sequence[str] = (),
        taken: float | None = None,
        name: str | None = None,
    ) -> str:
        """Accept a file as the web process does. Returns the picture's id."""
        image_id = hashlib.sha256(content).hexdigest()[:32]
        path = self.originals.incoming / image_id
        path.write_bytes(content)
        self.originals.store([StagedFile(path, image_id, kind)])
        new = NewPicture(
            image_id=image_id,
            filename=name or f"{image_id}.{kind}",
            extension=kind,
            num_bytes=len(content),
            captions=captions,
            taken_at=taken,
        )
        self.catalog.take_in([new], NOW)
        return image_id

    def image(self, image_id: str) -> Image:
        found = self.catalog.image(image_id)
        assert found is not None
        return found

    def settings(self, batch: int = 3, **more: Any) -> Settings:
        # What is deleted at NOW, long ago, can be brought back.
        return Settings(data_dir=self.folder, detect_batch=batch, decode_workers=1, delete_grace_s=1e12, **more)

    @contextmanager
    def worker(
        self,
        extractor: FakeExtractor | None = None,
        matchers: Sequence[Matcher] | None = None,
        batch: int = 3,
        on_request: Sequence[Matcher | LazyMatcher] = (),
        clocks: Clocks = THIS_MACHINE,
        **settings: Any,
    ) -> Iterator[tuple[Worker, Wakeups]]:
        matchers = [FakeMatcher()] if matchers is None else matchers
        later = [one if isinstance(one, LazyMatcher) else LazyMatcher.of(one) for one in on_request]
        with open_worker(
            self.settings(batch, **settings), extractor or FakeExtractor(), matchers, later, clocks
        ) as opened:
            yield opened

    def drain(
        self,
        extractor: FakeExtractor | None = None,
        matchers: Sequence[Matcher] | None = None,
        on_request: Sequence[Matcher | LazyMatcher] = (),
    ) -> None:
        """Work until nothing is left to do."""
        with self.worker(extractor, matchers, on_request=on_request) as (worker, _):
            while worker.run_once():
                pass

    def slab(self) -> Slab:
        return RecordLayout(R, D).open(self.folder / "regions", write=False)

    def check(self, pictures: dict[str, PIL.Image.Image], matcher: FakeMatcher | None = None) -> None:
        """Check that each picture exists once, with the same regions and view rows as when processed alone."""
        matcher = matcher or FakeMatcher()
        slots = [self.image(image_id).slot for image_id in pictures]
        assert sorted(slots) == list(range(self.catalog.num_slots()))  # type: ignore[type-var]
        slab, view = self.slab(), View(self.folder / "views" / matcher.digest)
        snapshot = view.snapshot()
        assert snapshot.counts == (self.catalog.num_slots(), self.catalog.num_caption_slots())
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
            kept = snapshot.read_images([slot])
            np.testing.assert_array_equal(kept["vectors"][0], encoded_alone.tensors()["vectors"][0].half().numpy())
            np.testing.assert_allclose(embedding_of(snapshot, slot), embedding[0].numpy(), atol=1e-6)
        self._check_captions(snapshot, matcher)
        slab.close()
        view.close()

    def _check_captions(self, snapshot: Snapshot, matcher: FakeMatcher) -> None:
        for caption in self.catalog.captions_at(range(self.catalog.num_caption_slots())):
            assert caption.slot is not None
            words, _ = matcher.encode_sentences([caption.text])
            kept = snapshot.read_captions([caption.slot])[0]
            np.testing.assert_array_equal(kept, words.vectors[0].half().numpy())


def view_is_whole(store: Store) -> bool:
    view = View(store.folder / "views" / "fake-matcher")
    try:
        return view.snapshot().counts == (store.catalog.num_slots(), store.catalog.num_caption_slots())
    finally:
        view.close()
