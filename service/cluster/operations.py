"""Changes of a shard, as all of its replicas make them: each a value that can be written down and made again.

Made twice, a change does no more than made once. Times and ids are part of it, so that all replicas come out alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard

from pydantic import TypeAdapter

from index.records import Image, NewPicture

LONG_AGO = 0.0  # when what was let go counts as deleted: nothing of it is kept


@dataclass(frozen=True, kw_only=True)
class TakeIn:
    """Pictures come in, as part of a job. Their bytes travel beside it.

    `bounded` where they are refused with too many captions or tags, and not where they move as they are.
    """

    job_id: str
    pictures: Sequence[NewPicture]
    now: float
    kept_since: float
    bounded: bool = True
    kind: Literal["take in"] = "take in"


@dataclass(frozen=True, kw_only=True)
class Delete:
    """A picture is deleted."""

    image_id: str
    now: float
    kind: Literal["delete"] = "delete"


@dataclass(frozen=True, kw_only=True)
class Release:
    """A picture that is in another shard now is let go for good, unless a change after number `since` was of it.

    Pictures are placed among `num_shards` since; 0 where an earlier release wrote this down.
    """

    image_id: str
    since: int
    num_shards: int = 0
    kind: Literal["release"] = "release"


@dataclass(frozen=True, kw_only=True)
class Restore:
    """A deletion is undone, unless the picture was deleted before `kept_since`."""

    image_id: str
    kept_since: float
    kind: Literal["restore"] = "restore"


@dataclass(frozen=True, kw_only=True)
class Edit:
    """The description of a picture changes; `changes` are the fields of a PictureChange that are given.

    `bounded` where too many captions or tags are refused, and not where a copy gets what its picture has.
    """

    image_id: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    bounded: bool = True
    kind: Literal["edit"] = "edit"


@dataclass(frozen=True, kw_only=True)
class Retry:
    """A picture that was set aside is tried again, as a job of its own."""

    image_id: str
    job_id: str
    now: float
    kind: Literal["retry"] = "retry"


@dataclass(frozen=True, kw_only=True)
class BuildView:
    """A model's view is built and kept up from now on."""

    digest: str
    now: float
    kind: Literal["build view"] = "build view"


Operation = TakeIn | Delete | Release | Restore | Edit | Retry | BuildView

_OPERATION: TypeAdapter[Operation] = TypeAdapter(Operation)


def has_picture(image: Image | None) -> TypeGuard[Image]:
    """Whether a shard that knows this of a picture has it, deleted or not, and has not let it go."""
    return image is not None and image.deleted_at != LONG_AGO


def concerns(operation: Operation, image_id: str) -> bool:
    """Whether somebody changed that picture; an attempt to let it go is no such change."""
    if isinstance(operation, TakeIn):
        return any(picture.image_id == image_id for picture in operation.pictures)
    return not isinstance(operation, BuildView | Release) and operation.image_id == image_id


def written(operation: Operation) -> bytes:
    """The operation as JSON."""
    return _OPERATION.dump_json(operation)


def read_operation(content: bytes) -> Operation:
    """The operation that was written."""
    return _OPERATION.validate_json(content)
