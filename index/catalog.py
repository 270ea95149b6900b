"""The system of record: what is committed here exists, nothing else does."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from index.entries import Caption, Failure, Image, JobStatus, NewPicture, Picture, Ready
from index.filters import Filter

Mask = npt.NDArray[np.bool_]


class Catalog:
    """Images, captions, tags, jobs and tombstones in SQLite. Safe from many threads and processes.

    Every method is one transaction, durable when it returns. Times are unix seconds, passed in.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file; UnknownSchema when it was made by another version."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections of all threads."""
        raise NotImplementedError

    # -- taking pictures in

    def accept(self, pictures: Sequence[NewPicture], now: float) -> str:
        """Make a job of the pictures; its id.

        A picture already known gets the captions and tags it lacks (a tag of the same name is replaced); a
        deleted one comes back, in its slot when it has one; a failed one is queued afresh.
        ValueError for a tag that is neither string nor finite number.
        """
        raise NotImplementedError

    def known(self, image_ids: Sequence[str]) -> set[str]:
        """Those of the ids that are queued or ready."""
        raise NotImplementedError

    def job(self, job_id: str) -> JobStatus | None:
        """How far the job is; None when there is no such job."""
        raise NotImplementedError

    def queued(self, limit: int) -> list[Picture]:
        """Pictures waiting for regions, oldest first."""
        raise NotImplementedError

    def tried(self, image_id: str, reason: str) -> int:
        """Count one more failed attempt; the attempts so far. KeyError when unknown."""
        raise NotImplementedError

    def set_aside(self, image_id: str, reason: str, now: float) -> None:
        """Take a queued picture out of the queue, listed among the failures."""
        raise NotImplementedError

    def failures(self) -> list[Failure]:
        """Pictures set aside, the latest first."""
        raise NotImplementedError

    def commit(self, ready: Sequence[Ready]) -> None:
        """Give pictures their region slots, and their captions the next caption slots.

        Slots must continue num_slots() without a gap, ValueError otherwise.
        """
        raise NotImplementedError

    # -- what is committed

    def num_slots(self) -> int:
        """Committed region slots: the true length of the region slab (deleted pictures included)."""
        raise NotImplementedError

    def num_caption_slots(self) -> int:
        """Committed caption slots: how long every view's caption slab is to become."""
        raise NotImplementedError

    def version(self) -> int:
        """A number that changes with every change but heartbeats; cheap enough to poll."""
        raise NotImplementedError

    def image(self, image_id: str) -> Image | None:
        """The picture in whatever state (look at `.state`: it may be deleted); None when never seen."""
        raise NotImplementedError

    def images_at(self, slots: Sequence[int]) -> list[Image | None]:
        """The pictures at region slots, in the order asked; None where deleted or not committed."""
        raise NotImplementedError

    def list_images(self, after: str | None, limit: int) -> list[Image]:
        """Pictures not deleted, in order of arrival, after the id given. ValueError when that id is unknown."""
        raise NotImplementedError

    def captions_of(self, image_ids: Sequence[str]) -> dict[str, list[Caption]]:
        """The captions of each picture (deleted or not), in order of arrival; ids never seen are left out."""
        raise NotImplementedError

    def captions_at(self, slots: Sequence[int]) -> list[Caption]:
        """The captions at caption slots, in the order asked, also of deleted pictures. KeyError past the end."""
        raise NotImplementedError

    # -- what may be shown

    def visible(self) -> Mask:
        """[num_slots] True where the picture is not deleted."""
        raise NotImplementedError

    def visible_captions(self) -> Mask:
        """[num_caption_slots] True where the caption's picture is not deleted."""
        raise NotImplementedError

    def matching(self, condition: Filter) -> Mask:
        """[num_slots] True where the picture is visible and passes the filter."""
        raise NotImplementedError

    def matching_captions(self, condition: Filter) -> Mask:
        """[num_caption_slots] True where the caption's picture is visible and passes the filter."""
        raise NotImplementedError

    def delete(self, image_id: str, now: float) -> bool:
        """Put up the tombstone; False when there is no such picture, or it is deleted already."""
        raise NotImplementedError

    # -- the house

    def heartbeat(self, role: str, now: float) -> None:
        """Note that a process of this role is alive."""
        raise NotImplementedError

    def last_heartbeat(self, role: str) -> float | None:
        """When a process of this role was last heard from."""
        raise NotImplementedError

    def counts(self) -> dict[str, int]:
        """How many pictures are "ready", "queued", "failed", "deleted"."""
        raise NotImplementedError
