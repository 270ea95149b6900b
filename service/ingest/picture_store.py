"""The store of received pictures: on return they are on disk, in the catalog, and part of a job."""

import uuid
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import NamedTuple, Protocol

from index.catalog.catalog import Catalog
from index.catalog.changes.arrivals import Arrival
from index.catalog.changes.description_bounds import OversizedDescription
from index.records import Image, NewPicture
from service.ingest.described_pictures import excess_message
from service.storage.originals import Originals, StagedFile


class ReceivedPicture(NamedTuple):
    """A complete file below `Originals.incoming`, with the catalog's record of its picture."""

    path: Path
    picture: NewPicture


class FileOutcome(NamedTuple):
    """The outcome for one file.

    `duplicate` where its bytes were stored already, or came twice; `restored` where its picture had been deleted.
    `refused` is the reason where it was not added because it would have too many captions or tags.
    """

    duplicate: bool
    restored: bool
    refused: str | None = None


class TakenIn(NamedTuple):
    """The job of added pictures, and the outcome of each."""

    job_id: str
    outcomes: Sequence[FileOutcome]


class PictureStore(Protocol):
    """Stores pictures durably."""

    def take_in(self, pictures: Sequence[ReceivedPicture], now: float, kept_since: float) -> TakenIn:
        """Store the pictures as a job, except for those refused. A picture deleted at or after `kept_since` is
        restored."""

    def image(self, image_id: str) -> Image | None:
        """A picture in any state, as known where it would be stored; None when never seen, or erased."""


class LocalPictureStore:
    """Stores pictures in a data directory."""

    def __init__(self, catalog: Catalog, originals: Originals) -> None:
        self._catalog, self._originals = catalog, originals

    def image(self, image_id: str) -> Image | None:
        """A picture in any state; None when never seen, or erased."""
        return self._catalog.image(image_id)

    def take_in(self, pictures: Sequence[ReceivedPicture], now: float, kept_since: float, job_id: str = "") -> TakenIn:
        """Store the pictures as a job of the given or a new id, except for those refused."""
        job_id = job_id or uuid.uuid4().hex
        with self._originals.adding():
            self._store_files(pictures)
            outcomes = without_excess(pictures, lambda part: self._commit(part, now, kept_since, job_id, bounded=True))
        return TakenIn(job_id, outcomes)

    def take_all_in(
        self, pictures: Sequence[ReceivedPicture], now: float, kept_since: float, job_id: str, bounded: bool
    ) -> TakenIn:
        """Store all the pictures as the job of that id. If `bounded`, raises OversizedDescription where one would have
        too many captions or tags, and stores none."""
        with self._originals.adding():
            self._store_files(pictures)
            return TakenIn(job_id, self._commit(pictures, now, kept_since, job_id, bounded))

    def _commit(
        self, pictures: Sequence[ReceivedPicture], now: float, kept_since: float, job_id: str, bounded: bool
    ) -> list[FileOutcome]:
        """Add pictures, whose bytes are stored, to the catalog."""
        new = [received.picture for received in pictures]
        taken = self._catalog.take_in(new, now, kept_since, job_id, bounded)
        return file_outcomes([picture.image_id for picture in new], taken.known, taken.restored)

    def _store_files(self, pictures: Sequence[ReceivedPicture]) -> None:
        """Store durably the bytes of every distinct picture that is missing or damaged."""
        image_ids = [picture.image_id for _, picture in pictures]
        known_ids = self._catalog.known_ids(image_ids)
        # An earlier release may have recognized another format.
        extensions = self._catalog.identities.extensions(image_ids)
        files: dict[str, StagedFile] = {}
        for path, picture in pictures:
            extension = extensions.get(picture.image_id, picture.extension)
            if picture.image_id not in known_ids or not self._originals.holds(picture.image_id, extension):
                files.setdefault(picture.image_id, StagedFile(path, picture.image_id, extension))
        self._catalog.arrivals.announce([Arrival(file.image_id, file.extension) for file in files.values()])
        self._originals.store(files.values())


def without_excess(
    pictures: Sequence[ReceivedPicture], take_all_in: Callable[[Sequence[ReceivedPicture]], Sequence[FileOutcome]]
) -> list[FileOutcome]:
    """The outcome of each picture. `take_all_in` stores all pictures, or raises OversizedDescription. It is retried
    without those refused, whose descriptions others extended since they were checked."""
    refused: dict[str, str] = {}
    outcomes: Iterator[FileOutcome] = iter(())
    while remaining := [received for received in pictures if received.picture.image_id not in refused]:
        try:
            outcomes = iter(take_all_in(remaining))
            break
        except OversizedDescription as excesses:
            refused |= {image_id: excess_message(excess) for image_id, excess in excesses.refused.items()}
    reasons = [refused.get(received.picture.image_id) for received in pictures]
    return [FileOutcome(False, False, reason) if reason is not None else next(outcomes) for reason in reasons]


def file_outcomes(image_ids: Sequence[str], known: Set[str], restored: Set[str]) -> list[FileOutcome]:
    """The outcome of each picture; those `known` were stored before, those `restored` had been deleted."""
    seen_ids, outcomes = set(known), list[FileOutcome]()
    for image_id in image_ids:
        duplicate = image_id in seen_ids
        outcomes.append(FileOutcome(duplicate, restored=not duplicate and image_id in restored))
        seen_ids.add(image_id)
    return outcomes
