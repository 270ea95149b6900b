"""The store that receives pictures: on return they are on disk, known to the catalog, and part of a job."""

import uuid
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import NamedTuple, Protocol

from index.catalog.catalog import Catalog
from index.catalog.changes.arrivals import Arrival
from index.catalog.changes.description_bounds import TooMuchSaid
from index.records import Image, NewPicture
from service.ingest.described_pictures import too_much_said
from service.storage.originals import Originals, StagedFile


class ReceivedPicture(NamedTuple):
    """A complete file below `Originals.incoming`, and what is known of the picture in it."""

    path: Path
    picture: NewPicture


class FileOutcome(NamedTuple):
    """Whether a picture that was taken in was known before.

    `duplicate` where its bytes were there already, or came twice; `restored` where it had been deleted and came back.
    `refused` is the reason where it was not taken in, since it would have too many captions or tags.
    """

    duplicate: bool
    restored: bool
    refused: str | None = None


class TakenIn(NamedTuple):
    """The job of pictures that were taken in, and the outcome of each."""

    job_id: str
    outcomes: Sequence[FileOutcome]


class PictureStore(Protocol):
    """Takes pictures in durably."""

    def take_in(self, pictures: Sequence[ReceivedPicture], now: float, kept_since: float) -> TakenIn:
        """A job of the pictures but for those refused. One that was deleted, but not before `kept_since`, comes back as
        it was."""

    def image(self, image_id: str) -> Image | None:
        """A picture in whatever state, as it is where it would be taken in; None when never seen, or erased."""


class LocalPictureStore:
    """Takes pictures into one data directory."""

    def __init__(self, catalog: Catalog, originals: Originals) -> None:
        self._catalog, self._originals = catalog, originals

    def image(self, image_id: str) -> Image | None:
        """A picture in whatever state; None when never seen, or erased."""
        return self._catalog.image(image_id)

    def take_in(self, pictures: Sequence[ReceivedPicture], now: float, kept_since: float, job_id: str = "") -> TakenIn:
        """A job of the pictures but for those refused, of the id given or a new one."""
        job_id = job_id or uuid.uuid4().hex
        with self._originals.adding():
            self._store_files(pictures)
            outcomes = without_excess(pictures, lambda some: self._commit(some, now, kept_since, job_id, bounded=True))
        return TakenIn(job_id, outcomes)

    def take_all_in(
        self, pictures: Sequence[ReceivedPicture], now: float, kept_since: float, job_id: str, bounded: bool
    ) -> TakenIn:
        """The job of that id, of all the pictures. TooMuchSaid where one would have too many captions or tags, unless
        they are not `bounded`: then none is taken in."""
        with self._originals.adding():
            self._store_files(pictures)
            return TakenIn(job_id, self._commit(pictures, now, kept_since, job_id, bounded))

    def _commit(
        self, pictures: Sequence[ReceivedPicture], now: float, kept_since: float, job_id: str, bounded: bool
    ) -> list[FileOutcome]:
        """Make pictures known whose bytes are stored."""
        new = [received.picture for received in pictures]
        taken = self._catalog.take_in(new, now, kept_since, job_id, bounded)
        return file_outcomes([one.image_id for one in new], taken.known, taken.restored)

    def _store_files(self, pictures: Sequence[ReceivedPicture]) -> None:
        """Store the bytes of every distinct picture that is not there yet, or damaged, durably."""
        image_ids = [picture.image_id for _, picture in pictures]
        known = self._catalog.known_ids(image_ids)
        extensions = self._catalog.identities.extensions(image_ids)  # an earlier release may have told another kind
        files: dict[str, StagedFile] = {}
        for path, picture in pictures:
            extension = extensions.get(picture.image_id, picture.extension)
            if picture.image_id not in known or not self._originals.holds(picture.image_id, extension):
                files.setdefault(picture.image_id, StagedFile(path, picture.image_id, extension))
        self._catalog.arrivals.announce([Arrival(file.image_id, file.extension) for file in files.values()])
        self._originals.store(files.values())


def without_excess(
    pictures: Sequence[ReceivedPicture], take_all_in: Callable[[Sequence[ReceivedPicture]], Sequence[FileOutcome]]
) -> list[FileOutcome]:
    """The outcome of each picture, of which `take_all_in` takes in all but those of which it says that too much is said
    of them: somebody said something since they were looked at."""
    refused: dict[str, str] = {}
    outcomes: Iterator[FileOutcome] = iter(())
    while left := [one for one in pictures if one.picture.image_id not in refused]:
        try:
            outcomes = iter(take_all_in(left))
            break
        except TooMuchSaid as excesses:
            refused |= {image_id: too_much_said(excess) for image_id, excess in excesses.refused.items()}
    reasons = [refused.get(one.picture.image_id) for one in pictures]
    return [FileOutcome(False, False, reason) if reason is not None else next(outcomes) for reason in reasons]


def file_outcomes(image_ids: Sequence[str], known: Set[str], restored: Set[str]) -> list[FileOutcome]:
    """The outcome of each picture, of which those `known` were there before, and those `restored` were deleted."""
    seen, found = set(known), list[FileOutcome]()
    for image_id in image_ids:
        duplicate = image_id in seen
        found.append(FileOutcome(duplicate, restored=not duplicate and image_id in restored))
        seen.add(image_id)
    return found
