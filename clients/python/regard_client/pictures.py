"""Pictures to upload, and how they are put together to requests of a bounded size."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from regard_client.answers import Accepted, IngestAnswer, Rejected
from regard_client.errors import Misconfigured, RequestRefused

MAX_BATCH_FILES = 32
MAX_BATCH_BYTES = 64 * 2**20
TOO_LARGE = 413
ESCAPES = re.compile("%(22|[01][0-9A-Fa-f])")  # in a file name, as forms write what may not stand in one

Content = str | Path | bytes  # the path of a file, which is read while it is sent, or what stands in one


@dataclass(frozen=True)
class Picture:
    """A picture to upload, and what is known about it. Bytes need a name; a file has one.

    `default_tags` are for a picture that is new, as far as `tags` have none of these names. `taken_at` is a year, month
    or day ("2024", "2024-05", "2024-05-01") or a time with its zone. In the fields that `decided` names ("captions",
    "tags", "taken_at") the metadata of the file has no say.
    """

    content: Content = field(repr=False)
    name: str = ""
    _: KW_ONLY
    captions: Sequence[str] = ()
    tags: Mapping[str, str | int | float] = field(default_factory=dict)
    default_tags: Mapping[str, str | int | float] = field(default_factory=dict)
    taken_at: str | None = None
    decided: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Misconfigured for bytes without a name, and for a sentence in place of a list of them."""
        if isinstance(self.captions, str):
            raise Misconfigured("captions are a list of sentences, not one sentence")
        if not self.name:
            if isinstance(self.content, bytes):
                raise Misconfigured("a picture given by its bytes needs a name, such as Picture(content, 'dog.jpg')")
            object.__setattr__(self, "name", Path(self.content).name)

    @property
    def num_bytes(self) -> int:
        """The size of the file as it is now."""
        return len(self.content) if isinstance(self.content, bytes) else Path(self.content).stat().st_size

    def details(self) -> dict[str, Any]:
        """The picture's entry in the manifest of an upload; empty where nothing is known."""
        tags = {"tags": dict(self.tags), "default_tags": dict(self.default_tags)}
        known = {"captions": list(self.captions), **tags, "taken_at": self.taken_at, "decided": list(self.decided)}
        return {name: value for name, value in known.items() if value}


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The outcome of one batch of an upload: its job, and what became of each file. No job where none was accepted."""

    job_id: str | None
    accepted: list[Accepted]
    rejected: list[Rejected]


def receipt_of(answer: IngestAnswer) -> Receipt:
    """The receipt of a batch of which something was accepted."""
    return Receipt(job_id=answer["job_id"], accepted=answer["accepted"], rejected=answer["rejected"])


def smaller_batches(batch: Sequence[Picture], refused: RequestRefused) -> list[Sequence[Picture]]:
    """The halves of a batch that is too large for the server, or for a proxy before it; none of any other."""
    middle = len(batch) // 2
    return [batch[:middle], batch[middle:]] if refused.status == TOO_LARGE and middle else []


def nothing_accepted(batch: Sequence[Picture], refused: RequestRefused) -> Receipt:
    """The receipt of a batch whose files were all rejected, or whose one file is too large; where it was refused
    otherwise, that error is raised."""
    if refused.status == TOO_LARGE and len(batch) == 1:
        too_large: Rejected = {"filename": batch[0].name, "problem": refused.reason, "retryable": False}
        return Receipt(job_id=None, accepted=[], rejected=[too_large])
    if refused.kind != "nothing-accepted":
        raise refused
    return Receipt(job_id=None, accepted=[], rejected=refused.document.get("rejected", []))


def as_picture(given: Picture | str | Path) -> Picture:
    """A picture of which nothing is known, where a file alone is given."""
    return given if isinstance(given, Picture) else Picture(given)


def manifest_of(pictures: Iterable[Picture]) -> str | None:
    """The manifest of an upload of the pictures, which goes by names; None where nothing is known of any.

    It holds the names that read otherwise in the head of a file: there %22 stands for a quote.
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
    """The pictures in their order, in groups for one request each: within both bounds, no name twice.

    A file larger than `max_bytes` is a group of its own, and so is one that cannot be looked at, which fails when it is
    sent. No more pictures are asked for than a group needs.
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
        except OSError:  # as where it was removed since it was listed
            size = math.inf
        twice = any(picture.name == other.name for other in batch)
        if batch and (twice or len(batch) >= max_files or num_bytes + size > max_bytes):
            yield batch
            batch, num_bytes = [], 0.0
        batch.append(picture)
        num_bytes += size
    if batch:
        yield batch
