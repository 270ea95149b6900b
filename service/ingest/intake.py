"""Taking pictures in: what is accepted here is on disk and in the catalog before the answer leaves."""

import asyncio
import time
import unicodedata
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass

from index.catalog import Catalog
from index.records import NewPicture
from service.errors import FeaturesOnly, InvalidRequest, NothingAccepted, TooLarge, UnreadablePicture
from service.ingest.manifest import Described, parse_manifest
from service.ingest.multipart import Form, FormLimits, SpooledFile
from service.ingest.spool import spooled
from service.media.inspect import inspect
from service.settings import Settings
from service.storage.originals import Incoming, Originals, image_id_of

LONGEST_NAME = 255
TURNS_TEXT_AROUND = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True)
class Accepted:
    """A file taken in; `duplicate` when its bytes were known already, or came twice in this request."""

    image_id: str
    filename: str
    duplicate: bool


@dataclass(frozen=True)
class Rejected:
    """A file not taken in, and what to do about it."""

    filename: str
    problem: str


@dataclass(frozen=True)
class IngestReceipt:
    """What became of every file of a request."""

    job_id: str
    accepted: Sequence[Accepted]
    rejected: Sequence[Rejected]


@dataclass(frozen=True)
class _Picture:
    """A file that passed inspection."""

    file: SpooledFile
    image_id: str
    extension: str


def display_name(filename: str) -> str:
    """A file name fit to be stored and shown: no control characters, at most 255 characters, never empty."""
    shown = "".join("\N{REPLACEMENT CHARACTER}" if _is_control(c) else c for c in filename).strip()
    if len(shown) > LONGEST_NAME:
        shown = f"{shown[: LONGEST_NAME - 21]}\N{HORIZONTAL ELLIPSIS}{shown[-20:]}"  # the extension stays
    return shown or "unnamed"


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in TURNS_TEXT_AROUND


class Intake:
    """Receives uploads. One for all requests; nothing blocks the event loop."""

    def __init__(
        self,
        catalog: Catalog,
        originals: Originals,
        limits: FormLimits,
        max_pixels: int,
        wake: Callable[[str], None],
        clock: Callable[[], float] = time.time,
        sees: bool = True,
    ) -> None:
        """`wake` is told the job's id once the job is safe; it may block for a moment and must not raise.

        Without `sees` nothing here finds regions in a picture, and none is taken in.
        """
        self._catalog, self._originals = catalog, originals
        self._limits, self._max_pixels = limits, max_pixels
        self._wake, self._clock, self._sees = wake, clock, sees

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        catalog: Catalog,
        originals: Originals,
        wake: Callable[[str], None],
        sees: bool = True,
    ) -> "Intake":
        """With the limits that settings name."""
        limits = FormLimits(
            max_file_bytes=settings.max_file_bytes,
            max_body_bytes=settings.max_body_bytes,
            max_files=settings.max_files,
        )
        return cls(catalog, originals, limits, settings.max_pixels, wake, sees=sees)

    async def receive(self, content_type: str, content_length: int | None, body: AsyncIterable[bytes]) -> IngestReceipt:
        """Take in the files of a form: `images`, and `manifest` as text or file.

        TooLarge, InvalidRequest, NothingAccepted and FeaturesOnly refuse the whole request.
        """
        if not self._sees:
            raise FeaturesOnly(
                "No pictures are taken in here: the data directory holds features made elsewhere, and nothing here"
                " finds such regions. Use another data directory, or take in features with `regard ingest-features`."
            )
        incoming = self._originals.incoming
        async with spooled(content_type, content_length, body, incoming, self._limits) as form:
            return await asyncio.to_thread(self._take, form)

    def _take(self, form: Form) -> IngestReceipt:
        files = [file for file in form.files if file.field == "images"]
        described = self._described(form, files)
        pictures: list[_Picture] = []
        rejected: list[Rejected] = []
        for file in files:
            try:
                pictures.append(self._inspected(file))
            except UnreadablePicture as problem:
                rejected.append(Rejected(display_name(file.filename), problem.detail))
        if not pictures:
            raise NothingAccepted([vars(one) for one in rejected])
        accepted = self._stored(pictures)
        job_id = self._catalog.accept([_new(picture, described) for picture in pictures], self._clock())
        self._wake(job_id)
        return IngestReceipt(job_id, accepted, rejected)

    def _described(self, form: Form, files: Sequence[SpooledFile]) -> Mapping[str, Described]:
        """The manifest of the form, by the names of its files."""
        texts = dict(form.fields)
        for file in form.files:
            if file.field == "manifest":  # as curl sends -F manifest=@manifest.json
                texts["manifest"] = self._text_of(file)
            elif file.field != "images":
                raise InvalidRequest.field(file.field, "files are sent in the field `images`")
        if unknown := next((name for name in texts if name != "manifest"), None):
            raise InvalidRequest.field(unknown, "there is no such field; a form has `images` and `manifest`")
        described = parse_manifest(texts.get("manifest", "{}"), (file.filename for file in files))
        contents: dict[str, str] = {}
        for file in files:
            if contents.setdefault(file.filename, file.sha256) != file.sha256 and file.filename in described:
                raise InvalidRequest.field(
                    "manifest", f"{file.filename!r} is the name of several files sent; rename all but one"
                )
        return described

    def _text_of(self, file: SpooledFile) -> str:
        if file.problem is not None or file.size > self._limits.max_field_bytes:
            raise TooLarge("The manifest is too long; send the files in several requests.")
        try:
            return file.path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise InvalidRequest.field("manifest", "is not UTF-8 text") from None

    def _inspected(self, file: SpooledFile) -> _Picture:
        if file.problem is not None:
            raise UnreadablePicture(file.problem)
        return _Picture(file, image_id_of(file.sha256), inspect(file.path, self._max_pixels))

    def _stored(self, pictures: Sequence[_Picture]) -> list[Accepted]:
        """Every distinct picture's bytes in their durable place."""
        seen = self._catalog.known_ids([picture.image_id for picture in pictures])
        accepted, incoming = [], []
        for picture in pictures:
            duplicate = picture.image_id in seen
            seen.add(picture.image_id)
            accepted.append(Accepted(picture.image_id, display_name(picture.file.filename), duplicate))
            if not duplicate or not self._originals.path(picture.image_id, picture.extension).exists():
                incoming.append(Incoming(picture.file.path, picture.image_id, picture.extension))
        self._originals.store({file.image_id: file for file in incoming}.values())
        return accepted


def _new(picture: _Picture, described: Mapping[str, Described]) -> NewPicture:
    about = described.get(picture.file.filename, Described())
    return NewPicture(
        image_id=picture.image_id,
        filename=display_name(picture.file.filename),
        extension=picture.extension,
        num_bytes=picture.file.size,
        captions=about.captions,
        tags=about.tags,
        taken_at=about.taken_seconds,
    )
