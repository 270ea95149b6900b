"""Picture files of a bulk ingestion, copied by the process that looks at them."""

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
    """A picture file by a path that every node sees, and what is said of it; `number` is its place among all files of
    a run, `taken_at` in unix seconds."""

    number: int
    name: str
    path: str
    captions: Sequence[str] = ()
    tags: Mapping[str, TagValue] = field(default_factory=dict)
    taken_at: float | None = None
    default_tags: Mapping[str, TagValue] = field(default_factory=dict)
    """Tags of a picture that is new, as far as `tags` have none of these names: they undo no edit."""
    decided: Sequence[str] = ()
    """Fields of the description in which the file itself has no say."""


@dataclass(frozen=True, kw_only=True)
class BulkLimits:
    """Limits of the files that a run takes, and its beginning: files arrive in their order, whoever is faster."""

    max_file_bytes: int
    delete_grace_s: float
    began_at: float


class NotTaken(Exception):
    """A file is not taken in; the message says why, and what to do."""


@dataclass(frozen=True)
class SpooledFile:
    """A copy of a file, complete, and the id that its bytes have."""

    offered: OfferedFile
    path: Path
    image_id: str


def spooled_file(offered: OfferedFile, folder: Path, max_bytes: int) -> SpooledFile:
    """A copy below `folder`, so that the bytes that are looked at are those that are taken in. Raises NotTaken where it
    cannot be copied, or is too large."""
    path = folder / str(offered.number)
    reading = partial(_not_taken, f"A node cannot read {offered.path}", "Every node has to see the same files.")
    with _not_taken(f"A node cannot write its copy of {offered.path}", f"Make room in {folder} there."):
        with reading():
            source = Path(offered.path).open("rb")  # noqa: SIM115 - closed below, where faults are told otherwise
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
def _not_taken(what: str, advice: str) -> Iterator[None]:
    """Raises NotTaken in the place of a disk's fault in the block."""
    try:
        yield
    except OSError as fault:
        raise NotTaken(f"{what}: {fault.strerror}. {advice}") from fault


def with_default_tags(one: SpooledFile, described: DescribedPictures) -> SpooledFile:
    """The file with those of its default tags that count for its picture."""
    tags = described.tags(one.image_id, one.offered.tags, one.offered.default_tags)
    return replace(one, offered=replace(one.offered, tags=tags))


def check_bounds(one: SpooledFile, described: DescribedPictures) -> None:
    """NotTaken where the picture would get more captions or tags than one may have."""
    problem = described.add(one.image_id, one.offered.captions, one.offered.tags)
    if problem is not None:
        raise NotTaken(problem)


def picture_in(one: SpooledFile, finder: RegionFinder, known: Image | None, limits: BulkLimits) -> ReceivedPicture:
    """The picture in a file, which `known` is where it is there already. NotTaken where there is none."""
    try:
        extension = finder.extension(one.path) if known is None else known.extension
    except UnreadablePicture as problem:
        raise NotTaken(problem.detail) from problem
    picture = NewPicture(
        image_id=one.image_id,
        filename=display_name(one.offered.name),
        extension=extension,
        num_bytes=one.path.stat().st_size,
        captions=list(one.offered.captions),
        tags=dict(one.offered.tags),
        taken_at=one.offered.taken_at,
        decided_fields=tuple(one.offered.decided),
        added_at=limits.began_at + one.offered.number * ARRIVAL_STEP_S,
    )
    return ReceivedPicture(one.path, picture)


def is_said_already(offered: OfferedFile, known: Image | None) -> bool:
    """Whether the picture is there with all that is said of it here."""
    if known is None or not set(offered.captions) <= set(known.captions):
        return False
    if offered.decided and known.slot is None:  # its file has not had its say yet
        return False
    if offered.taken_at not in (None, known.taken_at):
        return False
    return all(known.tags.get(name) == value for name, value in offered.tags.items())
