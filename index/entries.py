"""The catalog's values: what goes in, what comes out. All times are unix seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

TagValue: TypeAlias = str | int | float
ImageState: TypeAlias = Literal["queued", "ready", "failed", "deleted"]
JobState: TypeAlias = Literal["queued", "running", "done"]


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


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture waiting for its regions."""

    image_id: str
    filename: str
    extension: str
    attempts: int


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A picture whose region record lies, fsynced, at `slot`; `taken_at` (EXIF) counts where none was given."""

    image_id: str
    slot: int
    width: int
    height: int
    extractor: str
    taken_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Image:
    """One picture as the catalog knows it; `slot`, `width`, `height`, `extractor` are None until it is ready."""

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


@dataclass(frozen=True, kw_only=True)
class Caption:
    """One sentence of one picture; `slot` is None until the picture is ready, `deleted` is the picture's."""

    caption_id: int
    slot: int | None
    image_id: str
    text: str
    deleted: bool


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A picture set aside, and why."""

    image_id: str
    filename: str
    reason: str
    attempts: int


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """How far a job is, derived from the states of its pictures (a deleted picture counts as done)."""

    job_id: str
    state: JobState
    total: int
    done: int
    failed: int
    failures: tuple[Failure, ...]


@dataclass(frozen=True, kw_only=True)
class TagUse:
    """A tag name in use; `values` are the most frequent of its values, each with its number of pictures."""

    name: str
    num_pictures: int
    num_values: int
    values: tuple[tuple[TagValue, int], ...]
