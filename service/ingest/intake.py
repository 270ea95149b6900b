"""Ingestion of uploads: an accepted picture is on disk and in the catalog before the answer leaves."""

import asyncio
import time
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from index.catalog.catalog import Catalog
from index.catalog.text_index import composed
from index.fault_points import FaultPoint, reach
from index.records import Image, NewPicture
from service.errors import (
    FeaturesOnly,
    InvalidRequest,
    NothingAccepted,
    ReadOnlyCollection,
    TooLarge,
    UnreadablePicture,
)
from service.ingest.described_pictures import DescribedPictures
from service.ingest.filenames import display_name
from service.ingest.manifest import ManifestEntry, parse_manifest
from service.ingest.multipart import FormLimits, MultipartForm, UploadedFile
from service.ingest.picture_store import FileOutcome, LocalPictureStore, PictureStore, ReceivedPicture
from service.ingest.upload import check_length, receive_form
from service.media.decode_pool import DecodeFailed
from service.storage.disk import FreeSpace, refused_by_disk
from service.storage.originals import Originals, image_id_of

MAX_FAILED_LOOKS = 5  # files of one request whose headers cannot be read in time; the rest is not looked at


@dataclass(frozen=True)
class AcceptedFile:
    """An accepted file.

    `duplicate` when its bytes are stored already, or came twice in this request; `restored` when its picture had been
    deleted, and came back with what was said of it.
    """

    image_id: str
    filename: str
    duplicate: bool
    restored: bool = False


@dataclass(frozen=True)
class RejectedFile:
    """A rejected file; `problem` says why, and what to do about it.

    `retryable` when the service had no time for it, so that the same file may be accepted when it is sent again.
    """

    filename: str
    problem: str
    retryable: bool = False


@dataclass(frozen=True)
class IngestReceipt:
    """The job of a request, and which of its files were accepted."""

    job_id: str
    accepted: Sequence[AcceptedFile]
    rejected: Sequence[RejectedFile]


def sorted_out(
    received: Sequence[ReceivedPicture], outcomes: Sequence[FileOutcome]
) -> tuple[list[AcceptedFile], list[RejectedFile]]:
    """The files that were taken in, and those that were refused then, by the outcome of each."""
    accepted, rejected = list[AcceptedFile](), list[RejectedFile]()
    for (_, picture), (duplicate, restored, refused) in zip(received, outcomes, strict=True):
        if refused is None:
            accepted.append(AcceptedFile(picture.image_id, picture.filename, duplicate, restored))
        else:
            rejected.append(RejectedFile(picture.filename, refused))
    return accepted, rejected


@dataclass(frozen=True)
class _Picture:
    """An uploaded file that is a picture."""

    file: UploadedFile
    image_id: str
    extension: str


class Intake:
    """Accepts uploads. One for all requests; does not block the event loop."""

    def __init__(
        self,
        catalog: Catalog,
        originals: Originals,
        limits: FormLimits,
        inspect: Callable[[Path], str],
        wake: Callable[[], None],
        space: FreeSpace,
        clock: Callable[[], float] = time.time,
        accepts_pictures: bool = True,
        delete_grace_s: float = float("inf"),
        store: PictureStore | None = None,
    ) -> None:
        """`inspect` tells a file's extension from its header, or raises UnreadablePicture or DecodeFailed.

        `wake` is called once the job is durable; it may block for a moment and must not raise.

        Without `accepts_pictures` there is no detector for them, and every upload is refused. A picture that was
        deleted longer ago than `delete_grace_s` comes in as if it had never been there. `store` takes the pictures in,
        where it is not this data directory.
        """
        self._catalog, self._originals = catalog, originals
        self._limits, self._inspect = limits, inspect
        self._wake, self._clock, self._accepts_pictures = wake, clock, accepts_pictures
        self._space, self._delete_grace_s = space, delete_grace_s
        self._store = store or LocalPictureStore(catalog, originals)

    async def receive(self, content_type: str, content_length: int | None, body: AsyncIterable[bytes]) -> IngestReceipt:
        """Accept the files of a form: `images`, and `manifest` as text or file.

        The whole request is refused by TooLarge, InvalidRequest, NothingAccepted, FeaturesOnly, ReadOnlyCollection and
        DiskFull.
        """
        if self._catalog.read_only:
            raise ReadOnlyCollection("No pictures are taken in here: the data directory may not be written.")
        if not self._accepts_pictures:
            raise FeaturesOnly(
                "No pictures are taken in here: the data directory holds features made elsewhere, and nothing here"
                " finds such regions. Use another data directory, or take in features with `regard ingest-features`."
            )
        self._catalog.check_in_place()  # or the file would come to lie in another folder of that name
        check_length(content_length, self._limits)  # before the disk is: there is room on none for what is never taken
        self._space.require(content_length)
        incoming = self._originals.incoming
        with refused_by_disk():
            async with receive_form(content_type, content_length, body, incoming, self._limits) as form:
                return await asyncio.to_thread(self._accept, form)

    def _accept(self, form: MultipartForm) -> IngestReceipt:
        reach(FaultPoint.UPLOAD_RECEIVED)
        files = [file for file in form.files if file.field == "images"]
        manifest = self._manifest(form, files)
        pictures: list[_Picture] = []
        rejected: list[RejectedFile] = []
        failed_looks = 0
        for file in files:
            name = display_name(file.filename)
            if failed_looks == MAX_FAILED_LOOKS:
                problem = (
                    f"The file was not looked at, since {failed_looks} other files of this request could not be read in"
                    " time: send it again without them."
                )
                rejected.append(RejectedFile(name, problem, retryable=True))
                continue
            try:
                pictures.append(self._check(file))
            except UnreadablePicture as unreadable:
                rejected.append(RejectedFile(name, unreadable.detail))
            except DecodeFailed as failed:
                failed_looks += 1
                advice = "Save the picture anew with another program, or send it again."
                rejected.append(RejectedFile(name, f"{failed.reason} {advice}", retryable=not failed.final))
        kept_since = (now := self._clock()) - self._delete_grace_s
        received, too_much_said = self._described(pictures, manifest, kept_since)
        rejected += too_much_said
        if not received:
            raise NothingAccepted([vars(one) for one in rejected])
        job_id, outcomes = self._store.take_in(received, now, kept_since)
        reach(FaultPoint.UPLOAD_COMMITTED)
        accepted, refused = sorted_out(received, outcomes)
        rejected += refused
        if not accepted:
            raise NothingAccepted([vars(one) for one in rejected])
        self._wake()
        return IngestReceipt(job_id, accepted, rejected)

    def _find_known(self, kept_since: float, image_id: str) -> Image | None:
        """A picture as it is where it comes again; None also where its deletion, before that time, is final."""
        image = self._store.image(image_id)
        return None if image is None or image.is_gone(kept_since) else image

    def _described(
        self, pictures: Sequence[_Picture], manifest: Mapping[str, ManifestEntry], kept_since: float
    ) -> tuple[list[ReceivedPicture], list[RejectedFile]]:
        """The pictures with what the manifest says of them, and those of which it says too much."""
        described = DescribedPictures(partial(self._find_known, kept_since))
        received, refused = list[ReceivedPicture](), list[RejectedFile]()
        for picture in pictures:
            name, entry = picture.file.filename, manifest.get(picture.file.filename, ManifestEntry())
            tags = described.tags(picture.image_id, entry.tags, entry.default_tags)
            problem = described.add(picture.image_id, entry.captions, tags) if name in manifest else None
            if problem is not None:
                refused.append(RejectedFile(display_name(name), problem))
                continue
            new = NewPicture(
                image_id=picture.image_id,
                filename=display_name(name),
                extension=picture.extension,
                num_bytes=picture.file.size,
                captions=entry.captions,
                tags=tags,
                taken_at=entry.taken_seconds,
                decided_fields=tuple(entry.decided),
            )
            received.append(ReceivedPicture(picture.file.path, new))
        return received, refused

    def _manifest(self, form: MultipartForm, files: Sequence[UploadedFile]) -> Mapping[str, ManifestEntry]:
        """The manifest of the form, by file name."""
        texts = dict(form.fields)
        for file in form.files:
            if file.field == "manifest":  # as curl sends -F manifest=@manifest.json
                texts["manifest"] = self._read_text(file)
            elif file.field != "images":
                raise InvalidRequest.field(display_name(file.field), "files are sent in the field `images`")
        form.require_file("images")
        unknown = next((name for name in texts if name != "manifest"), None)
        if unknown is not None:
            raise InvalidRequest.field(
                display_name(unknown), "there is no such field; a form has `images` and `manifest`"
            )
        for file in files:
            file.filename = composed(file.filename)
        names = (name for file in files for name in (file.filename, file.raw_name))
        entries = parse_manifest(texts.get("manifest", "{}"), names)
        contents: dict[str, str] = {}
        for file in files:
            if file.filename not in entries and (raw := composed(file.raw_name)) in entries:
                file.filename = raw  # the manifest says how it is to be read
            if contents.setdefault(file.filename, file.sha256) != file.sha256 and file.filename in entries:
                raise InvalidRequest.field(
                    "manifest", f"{display_name(file.filename)!r} is the name of several files sent; rename all but one"
                )
        return entries

    def _read_text(self, file: UploadedFile) -> str:
        if file.problem is not None or file.size > self._limits.max_field_bytes:
            raise TooLarge("The manifest is too long; send the files in several requests.")
        try:
            return file.path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise InvalidRequest.field("manifest", "is not UTF-8 text") from None

    def _check(self, file: UploadedFile) -> _Picture:
        """The picture in the file; UnreadablePicture where it holds none that is accepted."""
        if file.problem is not None:
            raise UnreadablePicture(file.problem)
        return _Picture(file, image_id_of(file.sha256), self._inspect(file.path))
