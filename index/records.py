"""The values that the catalog takes and returns. All times are unix seconds."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Mask: TypeAlias = npt.NDArray[np.bool_]
"""One bool for each slot: True where a picture or a caption may be a result."""
TagValue: TypeAlias = str | int | float
ImageState: TypeAlias = Literal["queued", "ready", "failed", "deleted", "erasing", "erased"]
ImageOrder: TypeAlias = Literal["arrival", "latest", "date"]
"""Order of a list: as pictures arrived, latest arrival first, or newest photograph first with undated ones last."""
JobState: TypeAlias = Literal["queued", "running", "done"]
RegionStoreState: TypeAlias = Literal["current", "former", "kept", "removed"]
"""State of a region store: "current" takes new records; "former" is searched until that one is complete; "kept" has the
only features of some pictures; "removed" was given up, and its files may be gone."""

FEATURES_ONLY = "features"  # the extension of a picture that came as features, without an original


@dataclass(frozen=True)
class Collection:
    """The identity of a catalog's collection: an id for names, and a secret for signatures."""

    id: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class NewPicture:
    """A picture, with its bytes already on disk, to be added to the catalog."""

    image_id: str
    filename: str
    extension: str
    num_bytes: int
    captions: Sequence[str] = ()
    tags: Mapping[str, TagValue] = field(default_factory=dict)
    taken_at: float | None = None
    added_at: float | None = None
    """Arrival time; None for now."""
    decided_fields: tuple[str, ...] = ()
    """Fields of its description that its file may not set (`decided_fields.py`)."""


class Unchanged(Enum):
    """The type of UNCHANGED."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED  # where None means that a value is absent


@dataclass(frozen=True, kw_only=True)
class PictureChange:
    """A change of a picture's description.

    `captions` replace all captions. Of `tags`, the named ones are set, and removed where the value is None; None in
    place of the mapping removes all tags. `taken_at` None removes the date.
    """

    captions: Sequence[str] | Unchanged = UNCHANGED
    tags: Mapping[str, TagValue | None] | Unchanged | None = UNCHANGED
    taken_at: float | Unchanged | None = UNCHANGED
    filename: str | Unchanged = UNCHANGED
    decided_fields: Sequence[str] | Unchanged = UNCHANGED
    """Fields that the picture's file may not set when its regions are found; UNCHANGED adds those that this changes."""


@dataclass(frozen=True)
class ListPlace:
    """A place in a list of pictures: after the one with that id, at the date it had when the list was read."""

    image_id: str
    taken_at: float | Unchanged | None = UNCHANGED
    """UNCHANGED for its present date."""
    added_at: float | None = None
    """Its arrival time, which still gives its place after the picture was erased."""


@dataclass(frozen=True)
class AcceptedJob:
    """The job of added pictures; the ids of those that were already known, and of those restored."""

    job_id: str
    known: Set[str]
    restored: Set[str]


@dataclass(frozen=True, kw_only=True)
class ErasedPicture:
    """A picture that was erased from the catalog and whose files are still to be removed."""

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
    """Detections that began and are not known to have ended: each may have crashed the worker."""


@dataclass(frozen=True, kw_only=True)
class DetectedPicture:
    """A picture whose region record lies, fsynced, at `slot`.

    Metadata of its file: `captions` are added to those given, `tags` fill in missing names, `taken_at` (EXIF), or else
    `date_in_name`, a missing date. `width` and `height` are None where only features are known, `extractor` is None
    where the record comes later.
    """

    image_id: str
    slot: int
    width: int | None
    height: int | None
    extractor: str | None
    taken_at: float | None = None
    date_in_name: float | None = None
    captions: Sequence[str] = ()
    tags: Mapping[str, TagValue] = field(default_factory=dict)
    perceptual_hash: bytes | None = None
    """A perceptual hash: similar pictures differ in few bits. Empty for a plain picture."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """A picture in the catalog; `slot`, `width` and `height` are None until it is ready.

    Width and height stay None for features that came without them. `extractor` found its latest regions; None before
    the first.
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
        """Whether its bytes were stored, rather than features alone."""
        return self.extension != FEATURES_ONLY

    @property
    def is_erased(self) -> bool:
        """Whether its deletion is final: only its slot remains."""
        return self.state in ("erasing", "erased")

    def is_gone(self, kept_since: float) -> bool:
        """Whether it was deleted before that time, so that sending its file again does not restore it."""
        return self.deleted_at is not None and self.deleted_at < kept_since


@dataclass(frozen=True, kw_only=True)
class Caption:
    """A caption of a picture; `slot` is None until the picture is ready.

    `deleted` where the picture is, or where the caption itself was removed, whose text is then empty.
    """

    caption_id: int
    slot: int | None
    image_id: str
    text: str
    deleted: bool


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A picture that was set aside, or has no regions, and why; `added_at` is its arrival time."""

    image_id: str
    filename: str
    reason: str
    attempts: int
    added_at: float


@dataclass(frozen=True, kw_only=True)
class RegionStoreEntry:
    """A region store: a slab in `folder`, below the data directory, with the regions that one extractor found.

    `records` is the number of leading slots that have a record; None: every slot has one. The rate at which a store is
    being filled follows from the records since `timed_records`, between `timed_from` and `timed_to`.
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
    they have slots.
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
    """A tag name in use; `values` are its most frequent values, each with its number of pictures."""

    name: str
    num_pictures: int
    num_values: int
    values: tuple[tuple[TagValue, int], ...]
