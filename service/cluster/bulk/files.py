"""Picture files of a bulk ingestion, which are copied by the process that decodes them."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from index.records import Image, NewPicture, TagValue
from service.cluster.routing.picture_store import ARRIVAL_STEP_S
from service.errors import UnreadablePicture
from service.ingest.described_pictures import DescribedPictures
from service.ingest.filenames import display_name
from service.ingest.picture_store import ReceivedPicture
from service.storage.originals import image_id_of_file
from service.units import MB
from service.worker.region_finder import RegionFinder


@dataclass(frozen=True)
class OfferedFile:
    """A picture file at a path that every node sees, and its description; `number` is its index among all files of a
    run, `taken_at` in unix seconds."""

    number: int
    name: str
    path: str
    captions: Sequence[str] = ()
    tags: Mapping[str, TagValue] = field(default_factory=dict)
    taken_at: float | None = None
    default_tags: Mapping[str, TagValue] = field(default_factory=dict)
    """Tags for a new picture whose names `tags` lacks; those of a known picture stay, so that no edit is undone."""
    decided: Sequence[str] = ()
    """Fields of the description that ignore the file's own metadata."""


@dataclass(frozen=True, kw_only=True)
class BulkLimits:
    """Limits on the files of a run, and the time of its start, by which files are ordered, whoever is faster."""

    max_file_bytes: int
    delete_grace_s: float
    began_at: float


class NotTaken(Exception):
    """A file is not ingested; the message says why, and what to do."""


@dataclass(frozen=True)
class SpooledFile:
    """A complete copy of a file, and the id of its bytes."""

    offered: OfferedFile
    path: Path
    image_id: str


def spooled_file(offered: OfferedFile, folder: Path, max_bytes: int) -> SpooledFile:
    """A copy in `folder`, so that the bytes decoded are those ingested. Raises NotTaken where that fails, or it is too
    large."""
    path = folder / str(offered.number)
    reading = partial(_not_taken, f"A node cannot read {offered.path}", "Every node has to see the same files.")
    with _not_taken(f"A node cannot write its copy of {offered.path}", f"Make room in {folder} there."):
        with reading():
            source = Path(offered.path).open("rb")  # noqa: SIM115 - closed below, with another message
        with source, path.open("wb") as copy:
            size = os.fstat(source.fileno()).st_size
            if size > max_bytes:
                limit = f"over the limit of {max_bytes / MB:g} MB"
                raise NotTaken(f"The file has {size / MB:.1f} MB, {limit}; use a smaller one.")
            while True:
                with reading():
                    piece = source.read(MB)
                if not piece:
                    break
                copy.write(piece)
        return SpooledFile(offered, path, image_id_of_file(path))


@contextmanager
def _not_taken(problem: str, advice: str) -> Iterator[None]:
    """Turns an OSError in the block into NotTaken."""
    try:
        yield
    except OSError as fault:
        raise NotTaken(f"{problem}: {fault.strerror}. {advice}") from fault


def with_default_tags(file: SpooledFile, described: DescribedPictures) -> SpooledFile:
    """The file with those default tags that apply to its picture."""
    tags = described.tags(file.image_id, file.offered.tags, file.offered.default_tags)
    return replace(file, offered=replace(file.offered, tags=tags))


def check_bounds(file: SpooledFile, described: DescribedPictures) -> None:
    """NotTaken where the picture would get more captions or tags than one may have."""
    problem = described.add(file.image_id, file.offered.captions, file.offered.tags)
    if problem is not None:
        raise NotTaken(problem)


def picture_in(file: SpooledFile, finder: RegionFinder, known: Image | None, limits: BulkLimits) -> ReceivedPicture:
    """The picture in a file; `known` is its stored record, if any. NotTaken where there is no picture."""
    try:
        extension = finder.extension(file.path) if known is None else known.extension
    except UnreadablePicture as problem:
        raise NotTaken(problem.detail) from problem
    picture = NewPicture(
        image_id=file.image_id,
        filename=display_name(file.offered.name),
        extension=extension,
        num_bytes=file.path.stat().st_size,
        captions=list(file.offered.captions),
        tags=dict(file.offered.tags),
        taken_at=file.offered.taken_at,
        decided_fields=tuple(file.offered.decided),
        added_at=limits.began_at + file.offered.number * ARRIVAL_STEP_S,
    )
    return ReceivedPicture(file.path, picture)


def is_described_already(offered: OfferedFile, known: Image | None) -> bool:
    """Whether the picture is stored with all of the offered description."""
    if known is None or not set(offered.captions) <= set(known.captions):
        return False
    if offered.decided and known.slot is None:  # the file's own metadata is not read yet
        return False
    if offered.taken_at not in (None, known.taken_at):
        return False
    return all(known.tags.get(name) == value for name, value in offered.tags.items())
