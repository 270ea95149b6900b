"""The catalog's values: what goes in, what comes out. All times are unix seconds."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Mask: TypeAlias = npt.NDArray[np.bool_]
"""One bool a slot: True where a picture, or a caption, may answer."""
TagValue: TypeAlias = str | int | float
ImageState: TypeAlias = Literal["queued", "ready", "failed", "deleted", "erasing", "erased"]
ImageOrder: TypeAlias = Literal["arrival", "latest", "date"]
"""Of a list of pictures: as they came, the latest first, or the newest photograph first and undated ones last."""
JobState: TypeAlias = Literal["queued", "running", "done"]
RegionStoreState: TypeAlias = Literal["current", "former", "kept", "removed"]
"""Of a region store: the one that new records go to; one that answers until that is complete; one that stays because
pictures are known by its features alone; one that was given up, whose files may be gone."""

FEATURES_ONLY = "features"  # the extension of what came without a picture: there is no original of it


@dataclass(frozen=True)
class Collection:
    """The identity of the collection that a catalog holds: an id to name things by, and a secret to sign them with."""

    id: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class NewPicture:
    """A picture whose bytes are already on disk, offered to the catalog."""

    image_id: str
    filename: str
    extension: str
    num_bytes: int
    captions: Sequence[str] = ()
    tags: Mapping[str, TagValue] = field(default_factory=dict)
    taken_at: float | None = None
    added_at: float | None = None
    """When it came, where that is not now."""
    decided_fields: tuple[str, ...] = ()
    """Fields of its description in which its file has no say (`decided_fields.py`)."""


class Unchanged(Enum):
    """The type of UNCHANGED."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED  # where None means that there is nothing


@dataclass(frozen=True, kw_only=True)
class PictureChange:
    """A change of a picture's description.

    `captions` take the place of all captions. Of `tags` those named change, and those that are None go; None in place
    of the mapping takes all tags away. `taken_at` None takes the date away.
    """

    captions: Sequence[str] | Unchanged = UNCHANGED
    tags: Mapping[str, TagValue | None] | Unchanged | None = UNCHANGED
    taken_at: float | Unchanged | None = UNCHANGED
    filename: str | Unchanged = UNCHANGED
    decided_fields: Sequence[str] | Unchanged = UNCHANGED
    """Fields in which the picture's file has no say until its regions are found; UNCHANGED: what this changes, too."""


@dataclass(frozen=True)
class ListPlace:
    """A place in a list of pictures: behind the one of that id, dated as it was when the list was read."""

    image_id: str
    taken_at: float | Unchanged | None = UNCHANGED
    """UNCHANGED for as it is dated now."""
    added_at: float | None = None
    """The time that it was taken in, by which its place is found where the picture was erased since."""


@dataclass(frozen=True)
class AcceptedJob:
    """The job of pictures that were taken in; the ids of those that were there, and of those brought back."""

    job_id: str
    known: Set[str]
    restored: Set[str]


@dataclass(frozen=True, kw_only=True)
class ErasedPicture:
    """A picture that was erased from the catalog and whose files are to be removed."""

    number: int
    image_id: str
    extension: str


@dataclass(frozen=True, kw_only=True)
class QueuedPicture:
    """A picture waiting for its regions."""

    image_id: str
    filename: str
    extension: str
    attempts: int
    starts: int
    """Detections that began and whose end no worker told: each may have ended the worker."""


@dataclass(frozen=True, kw_only=True)
class DetectedPicture:
    """A picture whose region record lies, fsynced, at `slot`; `taken_at` (EXIF) counts where none was given.

    Its file's `captions` join those that were given, its `tags` count where there are none of their names.
    `width` and `height` are None where features alone are known. `extractor` is None where the record comes later.
    """

    image_id: str
    slot: int
    width: int | None
    height: int | None
    extractor: str | None
    taken_at: float | None = None
    captions: Sequence[str] = ()
    tags: Mapping[str, TagValue] = field(default_factory=dict)
    perceptual_hash: bytes | None = None
    """A hash of what it looks like, a few bits from that of one that looks the same; empty where it has none."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """One picture as the catalog knows it; `slot`, `width` and `height` are None until it is ready.

    Width and height stay None where features alone came and did not say. `extractor` is what found its latest regions,
    None before the first.
    """

    image_id: str
    filename: str
    extension: str
    num_bytes: int
    state: ImageState
    slot: int | None
    width: int | None
    height: int | None
    extractor: str | None
    taken_at: float | None
    added_at: float
    deleted_at: float | None
    captions: tuple[str, ...]
    tags: Mapping[str, TagValue]
    perceptual_hash: bytes | None = None

    @property
    def pictured(self) -> bool:
        """Whether its bytes were taken in, and not features alone."""
        return self.extension != FEATURES_ONLY

    @property
    def is_erased(self) -> bool:
        """Whether it was deleted for good: nothing but its slot counts."""
        return self.state in ("erasing", "erased")

    def is_gone(self, kept_since: float) -> bool:
        """Whether it was deleted before that time, so that nothing of it comes back with its file."""
        return self.deleted_at is not None and self.deleted_at < kept_since


@dataclass(frozen=True, kw_only=True)
class Caption:
    """One sentence of one picture; `slot` is None until the picture is ready.

    `deleted` where the picture is, or where the caption itself was taken away, whose text is then empty.
    """

    caption_id: int
    slot: int | None
    image_id: str
    text: str
    deleted: bool


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A picture set aside, or without regions, and why; `added_at` is when it was taken in."""

    image_id: str
    filename: str
    reason: str
    attempts: int
    added_at: float


@dataclass(frozen=True, kw_only=True)
class RegionStoreEntry:
    """One region store: a slab in `folder`, below the data directory, with what one extractor found.

    `records` counts the leading slots that have a record; None: every slot has one. The rate of a store that is being
    filled is that of the records since `timed_records`, between `timed_from` and `timed_to`.
    """

    extractor: str
    folder: str
    state: RegionStoreState
    records: int | None
    timed_from: float | None = None
    timed_records: int | None = None
    timed_to: float | None = None


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """The progress of a job, derived from the states of its pictures (a deleted picture counts as done).

    Its pictures lie in the first `picture_slots` slots of a view, its captions in the first `caption_slots`, as far as
    they have any.
    """

    job_id: str
    created_at: float
    state: JobState
    total: int
    done: int
    failed: int
    failures: tuple[Failure, ...]
    picture_slots: int
    caption_slots: int


@dataclass(frozen=True, kw_only=True)
class TagUse:
    """A tag name in use; `values` are the most frequent of its values, each with its number of pictures."""

    name: str
    num_pictures: int
    num_values: int
    values: tuple[tuple[TagValue, int], ...]
