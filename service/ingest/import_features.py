"""Import into a data directory of features made elsewhere, without their pictures.

A batch is written in the worker's order: region records (fsync), then one catalog transaction in which its pictures
appear as ready. A killed run leaves nothing half done, and running it again adds the rest.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from index.catalog.catalog import Catalog
from index.files import make_folder, replace_file
from index.records import FEATURES_ONLY, DetectedPicture, NewPicture
from index.views.slab import LayoutMismatch, Slab
from models.datasets.feature_collection import FeatureCollection, FeatureRecord
from models.extractors.base import REGION, Extractor
from models.extractors.config import CONFIG_FILE
from models.extractors.precomputed import PrecomputedConfig, PrecomputedExtractor
from service.errors import Misconfigured, user_input
from service.ingest.filenames import display_name
from service.ingest.intake import RejectedFile
from service.storage.data_dir import DataDir
from service.storage.data_dir_lock import lock_data_dir
from service.storage.regions.entries import FIRST_FOLDER, region_store_entries
from service.storage.regions.extractor_identity import stored_extractor
from service.storage.regions.folders import imported_extractor
from service.storage.regions.migration_progress import migration_progress
from service.storage.regions.records import UNKNOWN_LABEL, RecordLayout, Records, pack_features

BATCH = 64


@dataclass
class ImportedBatch:
    """The outcome of one batch: its pictures' names, and the numbers of those accepted (of which `restored` had been
    deleted) and of those stored already."""

    names: list[str] = field(default_factory=list)
    accepted: int = 0
    restored: int = 0
    duplicates: int = 0
    rejected: list[RejectedFile] = field(default_factory=list)


def import_features(
    collection: FeatureCollection,
    data_dir: Path,
    load_detector: Callable[[], Extractor],
    delete_grace_s: float,
    batch: int = BATCH,
    clock: Callable[[], float] = time.time,
) -> Iterator[ImportedBatch]:
    """Import the pictures of a collection, with arrival times from `clock`; yields the outcome of each batch.

    A picture deleted longer ago than `delete_grace_s` is imported as a new one. `load_detector` loads the detector that
    this data directory uses for pictures. Locked while a worker runs; Misconfigured where the features do not match the
    stored ones; UserError where they cannot be read.
    """
    with lock_data_dir(data_dir), closing(Catalog(DataDir(data_dir).catalog)) as catalog:
        extractor = _extractor_of(collection, data_dir, catalog, load_detector)
        with closing(_open_slab(data_dir, catalog, extractor)) as slab:
            importer = _Importer(catalog, slab, extractor, DataDir(data_dir).extractor)
            pictures = collection.pictures()
            while records := _read_batch(pictures, batch):
                now = clock()
                yield importer.add(records, now, now - delete_grace_s)


def _read_batch(pictures: Iterator[FeatureRecord], size: int) -> list[FeatureRecord]:
    with user_input():  # the source is parsed as it is read
        return list(islice(pictures, size))


def _extractor_of(
    collection: FeatureCollection, data_dir: Path, catalog: Catalog, load_detector: Callable[[], Extractor]
) -> Extractor:
    """The extractor of the features, whose description is stored in the data directory before anything else."""
    folder, stored = DataDir(data_dir).extractor, stored_extractor(catalog)
    if stored is not None and stored != collection.extractor:
        raise Misconfigured(
            f"{data_dir} holds features of {stored}, these are of {collection.extractor}, and the two do not compare:"
            " name another data directory with --data-dir"
        )
    if stored is not None and migration_progress(catalog, stored) is not None:
        raise Misconfigured(
            f"another detector is finding the regions in {data_dir} anew: start `regard serve`, and try again once"
            " `regard models` says that it is done; or name another data directory with --data-dir"
        )
    extractor: Extractor
    if stored is not None and (described := imported_extractor(DataDir(data_dir))) is not None:
        extractor = described
    elif (detector := load_detector()).digest == collection.extractor:
        extractor = detector
        (folder / CONFIG_FILE).unlink(missing_ok=True)  # left by a run that was killed before it stored anything
    elif stored is not None:
        raise _undescribed(stored, catalog, data_dir)
    elif num_waiting := catalog.counts()["queued"]:
        raise Misconfigured(f"{num_waiting} pictures in {data_dir} wait for a detector: name another with --data-dir")
    else:
        extractor = PrecomputedExtractor(
            PrecomputedConfig(
                digest=collection.extractor,
                num_regions=collection.num_regions,
                feature_dim=collection.feature_dim,
                labels=collection.labels,
            )
        )
        _describe(extractor, folder)
    if extractor.feature_dim != collection.feature_dim:
        raise Misconfigured(
            f"features of {collection.extractor} have {extractor.feature_dim} numbers in {data_dir}, these have"
            f" {collection.feature_dim}: name what made them with --extractor, and another data directory"
        )
    return extractor


def _undescribed(stored: str, catalog: Catalog, data_dir: Path) -> Misconfigured:
    """The error where the extractor of the stored features is not described, and differs from the detector here."""
    if not catalog.holds_features_alone():
        return Misconfigured(f"the regions in {data_dir} were found by {stored}: name that detector in REGARD_DETECTOR")
    return Misconfigured(
        f"{DataDir(data_dir).extractor / CONFIG_FILE}, which describes these features, is missing: restore it from a"
        f" backup, or copy {data_dir / FIRST_FOLDER / CONFIG_FILE} there, which says the same"
    )


def _describe(extractor: PrecomputedExtractor, folder: Path) -> None:
    make_folder(folder)
    replace_file(folder / CONFIG_FILE, extractor.config.to_json())


def _open_slab(data_dir: Path, catalog: Catalog, extractor: Extractor) -> Slab:
    folder = data_dir / region_store_entries(catalog, extractor.digest)[0].folder
    try:
        return RecordLayout.of(extractor).open(folder, write=True)
    except LayoutMismatch:
        raise Misconfigured(
            f"{data_dir} was laid out for regions of another shape than {extractor.num_regions} x"
            f" {extractor.feature_dim}: name another data directory with --data-dir"
        ) from None


class _Importer:
    """Adds batches to the data directory, one after the other."""

    def __init__(self, catalog: Catalog, slab: Slab, extractor: Extractor, folder: Path) -> None:
        self._catalog, self._slab = catalog, slab
        self._extractor, self._folder = extractor, folder

    def add(self, batch: Sequence[FeatureRecord], now: float, kept_since: float) -> ImportedBatch:
        """Store the new pictures of a batch, which include those deleted before `kept_since`."""
        outcome, valid = ImportedBatch([record.name for record in batch]), []
        for record in batch:
            problem = find_problem(record, self._extractor)
            if problem is None:
                valid.append((record.image_id(self._extractor.digest), record))
            else:
                outcome.rejected.append(RejectedFile(display_name(record.name), problem))
        new_records = self._without_record(valid, kept_since, outcome)
        first = self._catalog.num_slots()
        if new_records:
            self._add_labels(list(new_records.values()))
            self._slab.append(first, pack_records(list(new_records.values()), self._extractor))
        ready = [
            DetectedPicture(
                image_id=image_id,
                slot=slot,
                width=record.size and record.size[0],
                height=record.size and record.size[1],
                extractor=self._extractor.digest,
            )
            for slot, (image_id, record) in enumerate(new_records.items(), start=first)
        ]
        pictures = [_new_picture(image_id, record) for image_id, record in valid]
        self._catalog.take_in_ready(pictures, ready, now, kept_since)
        return outcome

    def _without_record(
        self, valid: Sequence[tuple[str, FeatureRecord]], kept_since: float, outcome: ImportedBatch
    ) -> dict[str, FeatureRecord]:
        """The pictures without a region record, by id. A deleted picture keeps its record and is restored with it,
        unless it was deleted before `kept_since`.

        Counts all pictures in `outcome`.
        """
        new_records: dict[str, FeatureRecord] = {}
        seen_ids: set[str] = set()
        for image_id, record in valid:
            stored_picture = self._catalog.image(image_id)
            image = None if stored_picture is None or stored_picture.is_gone(kept_since) else stored_picture
            if image_id in seen_ids or (image is not None and image.state == "ready"):
                outcome.duplicates += 1
            else:
                outcome.accepted += 1
                outcome.restored += image is not None and image.state == "deleted"
            if image_id not in seen_ids and (image is None or image.slot is None):
                new_records[image_id] = record
            seen_ids.add(image_id)
        return new_records

    def _add_labels(self, pictures: Sequence[FeatureRecord]) -> None:
        """Add new labels to the extractor's description, before records refer to them."""
        extractor = self._extractor
        new = {label for picture in pictures for label in picture.labels} - {REGION, *extractor.labels}
        if new and isinstance(extractor, PrecomputedExtractor):
            self._extractor = PrecomputedExtractor(replace(extractor.config, labels=(*extractor.labels, *sorted(new))))
            _describe(self._extractor, self._folder)


def find_problem(record: FeatureRecord, extractor: Extractor) -> str | None:
    """The reason why a picture cannot be stored with the extractor's others; None when it can."""
    num, width = record.features.shape
    if num == 0:
        return "It has no regions."
    if num > extractor.num_regions:
        return (
            f"It has {num} regions, and there is room for {extractor.num_regions}; more can be made in a new data"
            " directory alone (--regions)."
        )
    if width != extractor.feature_dim:
        return f"Its features have {width} numbers, not {extractor.feature_dim}."
    if not np.isfinite(record.features).all():
        return "Its features are not finite, or too large for float16."
    if record.boxes is not None and not np.isfinite(record.boxes).all():
        return "Its boxes are not finite."
    return None


def pack_records(pictures: Sequence[FeatureRecord], extractor: Extractor) -> Records:
    """Region records of the pictures."""
    arrays = RecordLayout.of(extractor).blank(len(pictures))
    index = {label: number for number, label in enumerate(extractor.labels)}
    for row, picture in enumerate(pictures):
        labels = [index.get(label, UNKNOWN_LABEL) for label in picture.labels]
        pack_features(arrays, row, picture.features, boxes=picture.boxes, labels=labels, confidence=picture.confidence)
    return arrays


def _new_picture(image_id: str, record: FeatureRecord) -> NewPicture:
    return NewPicture(
        image_id=image_id,
        filename=display_name(record.name),
        extension=FEATURES_ONLY,
        num_bytes=record.features.nbytes,
        captions=record.captions,
    )
