"""Features made elsewhere, taken into a data directory without their pictures.

Order of a batch, as the worker's: region records (fsync), then one catalog transaction in which its pictures appear
ready. A killed run leaves nothing half done, and running it again adds what is missing.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from index.catalog import Catalog
from index.files import make_folder
from index.files import replace as replace_file
from index.lock import WriterLock
from index.records import FEATURES_ONLY, DetectedPicture, NewPicture
from index.slab import LayoutMismatch, Slab
from models.datasets.feature_collection import Collection, Featured
from models.extractors.base import REGION, Extractor
from models.extractors.config import CONFIG_FILE
from models.extractors.precomputed import MadeElsewhere, Precomputed, load_precomputed
from service.ingest.intake import Rejected, display_name
from service.storage.data_dir import DataDir
from service.storage.extractor_identity import stored_extractor
from service.storage.region_records import UNKNOWN_LABEL, RecordLayout, Records, pack_features

BATCH = 64


@dataclass
class Taken:
    """What became of some pictures; `duplicates` were there already."""

    names: list[str] = field(default_factory=list)
    accepted: int = 0
    duplicates: int = 0
    rejected: list[Rejected] = field(default_factory=list)


def ingest_features(
    collection: Collection,
    data_dir: Path,
    detector: Callable[[], Extractor],
    batch: int = BATCH,
    clock: Callable[[], float] = time.time,
) -> Iterator[Taken]:
    """Takes the pictures in, batch by batch. `detector` loads the one that would look at pictures here.

    Locked while a worker runs; ValueError where what is stored and the features do not belong together.
    """
    with WriterLock(data_dir), closing(Catalog(DataDir(data_dir).catalog)) as catalog:
        extractor = _maker(collection, data_dir, catalog, detector)
        with closing(_slab(data_dir, extractor)) as slab:
            intake = _Intake(catalog, slab, extractor, DataDir(data_dir).extractor, clock)
            pictures = collection.pictures()
            while part := list(islice(pictures, batch)):
                yield intake.take(part)


def _maker(collection: Collection, data_dir: Path, catalog: Catalog, detector: Callable[[], Extractor]) -> Extractor:
    """What made the features, as the data directory knows it; written down there before anything is stored."""
    folder, stored = DataDir(data_dir).extractor, stored_extractor(catalog)
    if stored is not None and stored != collection.extractor:
        raise ValueError(
            f"{data_dir} holds features of {stored}, these are of {collection.extractor}, and the two do not compare:"
            " name another data directory with --data-dir"
        )
    extractor: Extractor
    described = folder / CONFIG_FILE
    if stored is not None and described.is_file():
        extractor = load_precomputed(folder)
    elif (own := detector()).digest == collection.extractor:
        extractor = own
        described.unlink(missing_ok=True)  # of a run that was killed before it stored anything
    elif stored is not None:
        raise ValueError(f"the regions in {data_dir} were found by {stored}: name that detector in REGARD_DETECTOR")
    elif waiting := catalog.counts()["queued"]:
        raise ValueError(f"{waiting} pictures in {data_dir} wait for a detector: name another with --data-dir")
    else:
        extractor = Precomputed(
            MadeElsewhere(
                digest=collection.extractor,
                num_regions=collection.num_regions,
                feature_dim=collection.feature_dim,
                labels=collection.labels,
            )
        )
        _describe(extractor, folder)
    if extractor.feature_dim != collection.feature_dim:
        raise ValueError(
            f"features of {collection.extractor} have {extractor.feature_dim} numbers in {data_dir}, these have"
            f" {collection.feature_dim}: name what made them with --extractor, and another data directory"
        )
    return extractor


def _describe(extractor: Precomputed, folder: Path) -> None:
    make_folder(folder)
    replace_file(folder / CONFIG_FILE, extractor.made.content())


def _slab(data_dir: Path, extractor: Extractor) -> Slab:
    try:
        return RecordLayout.of(extractor).open(DataDir(data_dir).regions, write=True)
    except LayoutMismatch:
        raise ValueError(
            f"{data_dir} was laid out for regions of another shape than {extractor.num_regions} x"
            f" {extractor.feature_dim}: name another data directory with --data-dir"
        ) from None


class _Intake:
    """Takes batches in, one after the other."""

    def __init__(
        self, catalog: Catalog, slab: Slab, extractor: Extractor, folder: Path, clock: Callable[[], float]
    ) -> None:
        self._catalog, self._slab, self._clock = catalog, slab, clock
        self._extractor, self._folder = extractor, folder

    def take(self, part: Sequence[Featured]) -> Taken:
        """Store what is new of these pictures."""
        taken, sound = Taken([one.name for one in part]), []
        for one in part:
            problem = unfit(one, self._extractor)
            if problem is None:
                sound.append((one.image_id(self._extractor.digest), one))
            else:
                taken.rejected.append(Rejected(display_name(one.name), problem))
        fresh = self._counted(sound, taken)
        first = self._catalog.num_slots()
        if fresh:
            self._learn_labels(list(fresh.values()))
            self._slab.append(first, records(list(fresh.values()), self._extractor))
        ready = [
            DetectedPicture(
                image_id=image_id,
                slot=slot,
                width=one.size and one.size[0],
                height=one.size and one.size[1],
                extractor=self._extractor.digest,
            )
            for slot, (image_id, one) in enumerate(fresh.items(), start=first)
        ]
        self._catalog.commit(ready, [_new(image_id, one) for image_id, one in sound], self._clock())
        return taken

    def _counted(self, sound: Sequence[tuple[str, Featured]], taken: Taken) -> dict[str, Featured]:
        """Those that have no record yet, by id; what is deleted has one and comes back in its place."""
        fresh: dict[str, Featured] = {}
        seen: set[str] = set()
        for image_id, one in sound:
            image = self._catalog.image(image_id)
            if image_id in seen or (image is not None and image.state == "ready"):
                taken.duplicates += 1
            else:
                taken.accepted += 1
            if image_id not in seen and (image is None or image.slot is None):
                fresh[image_id] = one
            seen.add(image_id)
        return fresh

    def _learn_labels(self, pictures: Sequence[Featured]) -> None:
        """Write new labels down before records refer to them."""
        extractor = self._extractor
        new = {label for one in pictures for label in one.labels} - {REGION, *extractor.labels}
        if new and isinstance(extractor, Precomputed):
            self._extractor = Precomputed(replace(extractor.made, labels=(*extractor.labels, *sorted(new))))
            _describe(self._extractor, self._folder)


def unfit(one: Featured, extractor: Extractor) -> str | None:
    """Why a picture cannot be stored beside others of the extractor; None when it can."""
    num, width = one.features.shape
    if num == 0:
        return "It has no regions."
    if num > extractor.num_regions:
        return (
            f"It has {num} regions, and there is room for {extractor.num_regions}; more can be made in a new data"
            " directory alone (--regions)."
        )
    if width != extractor.feature_dim:
        return f"Its features have {width} numbers, not {extractor.feature_dim}."
    if not np.isfinite(one.features).all():
        return "Its features are not finite, or too large for float16."
    if one.boxes is not None and not np.isfinite(one.boxes).all():
        return "Its boxes are not finite."
    return None


def records(pictures: Sequence[Featured], extractor: Extractor) -> Records:
    """Region records of the pictures."""
    arrays = RecordLayout.of(extractor).blank(len(pictures))
    index = {label: number for number, label in enumerate(extractor.labels)}
    for row, one in enumerate(pictures):
        labels = [index.get(label, UNKNOWN_LABEL) for label in one.labels]
        pack_features(arrays, row, one.features, boxes=one.boxes, labels=labels, confidence=one.confidence)
    return arrays


def _new(image_id: str, one: Featured) -> NewPicture:
    return NewPicture(
        image_id=image_id,
        filename=display_name(one.name),
        extension=FEATURES_ONLY,
        num_bytes=one.features.nbytes,
        captions=one.captions,
    )
