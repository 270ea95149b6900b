"""The operations that change a shard: values that all replicas apply, and that can be stored and applied again.

Operations are idempotent. Times and ids are part of them, so that all replicas end in the same state.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeGuard

from pydantic import TypeAdapter

from index.records import Image, NewPicture

LONG_AGO = 0.0  # the time of deletion of released pictures, so that nothing of them is kept


@dataclass(frozen=True, kw_only=True)
class TakeIn:
    """Pictures are ingested as part of a job. Their bytes are sent separately.

    With `bounded`, pictures with too many captions or tags are refused; a move of existing pictures is not bounded.
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
    """A picture that is now in another shard is released for good, unless it was changed after change number `since`.

    Pictures are placed among `num_shards` shards from then on; 0 in journals of earlier releases.
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
    """The description of a picture changes; `changes` are the fields of a PictureChange that are set.

    With `bounded`, too many captions or tags are refused; copying a picture's description to its copy is not bounded.
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
    """A model's view is built and maintained from now on."""

    digest: str
    now: float
    kind: Literal["build view"] = "build view"


Operation = TakeIn | Delete | Release | Restore | Edit | Retry | BuildView

_OPERATION: TypeAdapter[Operation] = TypeAdapter(Operation)


def has_picture(image: Image | None) -> TypeGuard[Image]:
    """Whether a shard's record of a picture means that it has the picture, deleted or not, and has not released it."""
    return image is not None and image.deleted_at != LONG_AGO


def concerns(operation: Operation, image_id: str) -> bool:
    """Whether an operation changes that picture; its release does not count as a change."""
    if isinstance(operation, TakeIn):
        return any(picture.image_id == image_id for picture in operation.pictures)
    return not isinstance(operation, BuildView | Release) and operation.image_id == image_id


def without_descriptions(operation: Operation, image_ids: Collection[str]) -> Operation:
    """The operation without what it says of these pictures."""
    if isinstance(operation, TakeIn):
        kept = ("image_id", "extension", "num_bytes", "added_at")
        pictures = [
            NewPicture(filename="", **{name: getattr(one, name) for name in kept}) if one.image_id in image_ids else one
            for one in operation.pictures
        ]
        return replace(operation, pictures=pictures)
    if isinstance(operation, Edit) and operation.image_id in image_ids:
        return replace(operation, changes={})
    return operation


def written(operation: Operation) -> bytes:
    """The operation as JSON."""
    return _OPERATION.dump_json(operation)


def read_operation(content: bytes) -> Operation:
    """The operation in JSON that `written` made, perhaps after the checksums of one that was overwritten."""
    return _OPERATION.validate_json(content[content.index(b"{") :])
