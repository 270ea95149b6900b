"""Pictures to upload, and their batching into requests of bounded size."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from regard_client.answers import Accepted, IngestAnswer, Rejected
from regard_client.errors import TOO_LARGE, Misconfigured, RequestRefused

MAX_BATCH_FILES = 32
MAX_BATCH_BYTES = 64 * 2**20
ESCAPES = re.compile(
    "%(22|[01][0-9A-Fa-f])"
)  # in a file name: multipart forms escape a quote and control characters like this

Content = str | Path | bytes  # the path of a file, which is read while it is sent, or its content


@dataclass(frozen=True)
class Picture:
    """A picture to upload, and what is known about it. Bytes need a name; a file has one.

    The defaults apply to new pictures: `default_tags` where `tags` does not have the name, `default_taken_at` where the
    file holds no date. `taken_at` is a year, month or day
    ("2024", "2024-05", "2024-05-01") or a time with its zone. The fields that `decided` names ("captions", "tags",
    "taken_at") are not filled from the file's metadata.
    """

    content: Content = field(repr=False)
    name: str = ""
    _: KW_ONLY
    captions: Sequence[str] = ()
    tags: Mapping[str, str | int | float] = field(default_factory=dict)
    default_tags: Mapping[str, str | int | float] = field(default_factory=dict)
    default_captions: Sequence[str] = ()
    taken_at: str | None = None
    default_taken_at: str | None = None
    decided: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Fill in the name. Raises Misconfigured for bytes without one, and for captions that are one string."""
        if isinstance(self.captions, str):
            raise Misconfigured("captions are a list of sentences, not one sentence")
        if not self.name:
            if isinstance(self.content, bytes):
                raise Misconfigured("a picture given by its bytes needs a name, such as Picture(content, 'dog.jpg')")
            object.__setattr__(self, "name", Path(self.content).name)

    @property
    def num_bytes(self) -> int:
        """The current size of the file."""
        return len(self.content) if isinstance(self.content, bytes) else Path(self.content).stat().st_size

    def details(self) -> dict[str, Any]:
        """The picture's entry in the manifest of an upload; empty if nothing is known."""
        tags = {"tags": dict(self.tags), "default_tags": dict(self.default_tags)}
        captions = {"captions": list(self.captions), "default_captions": list(self.default_captions)}
        dates = {"taken_at": self.taken_at, "default_taken_at": self.default_taken_at}
        known = {**captions, **tags, **dates, "decided": list(self.decided)}
        return {name: value for name, value in known.items() if value}


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The outcome of one batch of an upload: its job, None if no file was accepted, and the outcome of each file."""

    job_id: str | None
    accepted: list[Accepted]
    rejected: list[Rejected]


def receipt_of(answer: IngestAnswer) -> Receipt:
    """The receipt of a batch of which at least one file was accepted."""
    return Receipt(job_id=answer["job_id"], accepted=answer["accepted"], rejected=answer["rejected"])


def smaller_batches(batch: Sequence[Picture], refused: RequestRefused) -> list[Sequence[Picture]]:
    """The halves of a batch that is too large for the server or for a proxy; empty for any other refusal."""
    middle = len(batch) // 2
    return [batch[:middle], batch[middle:]] if refused.status == TOO_LARGE and middle else []


def rejected_alone(name: str, problem: str, retryable: bool = False) -> Receipt:
    """The receipt of a single file that was rejected."""
    rejected: Rejected = {"filename": name, "problem": problem, "retryable": retryable, "deleted": False}
    return Receipt(job_id=None, accepted=[], rejected=[rejected])


def nothing_accepted(batch: Sequence[Picture], refused: RequestRefused) -> Receipt:
    """The receipt of a batch whose files were all rejected, or whose single file is too large.

    Raises `refused` if that has any other reason.
    """
    if refused.status == TOO_LARGE and len(batch) == 1:
        return rejected_alone(batch[0].name, refused.reason)
    if refused.kind != "nothing-accepted":
        raise refused
    return Receipt(job_id=None, accepted=[], rejected=refused.document.get("rejected", []))


def as_picture(picture: Picture | str | Path) -> Picture:
    """The picture itself, or a file as a picture without further details."""
    return picture if isinstance(picture, Picture) else Picture(picture)


def manifest_of(pictures: Iterable[Picture]) -> str | None:
    """The manifest of an upload, by the pictures' names; None if it would be empty.

    It also holds names that contain an escape such as %22, which the server would read as a quote in a form.
    """
    entries: dict[str, dict[str, Any]] = {}
    for picture in pictures:
        details = picture.details()
        if entries.setdefault(picture.name, details) != details:
            raise Misconfigured(f"two pictures of one request are called {picture.name}: send them one after the other")
    known = {name: details for name, details in entries.items() if details or ESCAPES.search(name)}
    return json.dumps(known) if known else None


def upload_batches(
    pictures: Iterable[Picture | str | Path], max_files: int = MAX_BATCH_FILES, max_bytes: int = MAX_BATCH_BYTES
) -> Iterator[list[Picture]]:
    """The pictures in their order, in batches for one request each: within both bounds, no name twice.

    A file larger than `max_bytes` is a batch of its own, and so is an unreadable one, which fails when it is sent. The
    iterable is read no further than the current batch needs.
    """
    if max_files < 1:
        raise Misconfigured("a batch holds at least one file")
    if isinstance(pictures, str | Path):
        raise Misconfigured("pictures are a list, not one picture")
    batch: list[Picture] = []
    num_bytes = 0.0
    for picture in map(as_picture, pictures):
        try:
            size: float = picture.num_bytes
        except OSError:  # such as a file that was removed after it was listed
            size = math.inf
        twice = any(picture.name == other.name for other in batch)
        if batch and (twice or len(batch) >= max_files or num_bytes + size > max_bytes):
            yield batch
            batch, num_bytes = [], 0.0
        batch.append(picture)
        num_bytes += size
    if batch:
        yield batch
