"""Ingestion of uploads: an accepted picture is on disk and in the catalog before the response is sent."""

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
from service.ingest.multipart import FormLimits, MultipartForm, UploadedFile, escaped
from service.ingest.picture_store import FileOutcome, LocalPictureStore, PictureStore, ReceivedPicture
from service.ingest.upload import check_length, receive_form
from service.media.decode_pool import DecodeFailed
from service.storage.disk import FreeSpace, refused_by_disk
from service.storage.originals import Originals, image_id_of

LEFT_DELETED = "The picture was deleted, and `restore=false` keeps it so."
MAX_FAILED_LOOKS = 5  # files of one request whose headers cannot be read in time; the rest is not inspected


@dataclass(frozen=True)
class AcceptedFile:
    """An accepted file.

    `duplicate` where its bytes were stored already, or came twice in this request; `restored` where its picture had
    been deleted, and was restored with its description.
    """

    image_id: str
    filename: str
    duplicate: bool
    restored: bool = False


@dataclass(frozen=True)
class RejectedFile:
    """A rejected file; `problem` says why, and what to do about it.

    `retryable` where the service ran out of time, so that the same file may be accepted when it is sent again.
    `deleted` where its picture is deleted, and the request restores none.
    """

    filename: str
    problem: str
    retryable: bool = False
    deleted: bool = False


@dataclass(frozen=True)
class IngestReceipt:
    """The job of a request, and its accepted and rejected files."""

    job_id: str
    accepted: Sequence[AcceptedFile]
    rejected: Sequence[RejectedFile]


def by_outcome(
    received: Sequence[ReceivedPicture], outcomes: Sequence[FileOutcome]
) -> tuple[list[AcceptedFile], list[RejectedFile]]:
    """The accepted and the rejected files, by the outcome of each."""
    accepted, rejected = list[AcceptedFile](), list[RejectedFile]()
    for (_, picture), (duplicate, restored, refused) in zip(received, outcomes, strict=True):
        if refused is None:
            accepted.append(AcceptedFile(picture.image_id, picture.filename, duplicate, restored))
        else:
            rejected.append(RejectedFile(picture.filename, refused))
    return accepted, rejected


@dataclass(frozen=True)
class _Picture:
    """An uploaded file that holds a picture."""

    file: UploadedFile
    image_id: str
    extension: str


class Intake:
    """Accepts uploads. One instance serves all requests; it does not block the event loop."""

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
        """`inspect` determines a file's extension from its header, or raises UnreadablePicture or DecodeFailed.

        `wake` is called once the job is durable; it may block for a moment and must not raise.

        Without `accepts_pictures` there is no detector for them, and every upload is refused. A picture deleted longer
        ago than `delete_grace_s` is added as a new one. `store` receives the pictures, by default this data directory.
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
        self._catalog.check_in_place()  # or the file could be stored under the mount point of an unmounted disk
        check_length(content_length, self._limits)  # first: too large a request is no matter of disk space
        self._space.require(content_length)
        incoming = self._originals.incoming
        with refused_by_disk():
            async with receive_form(content_type, content_length, body, incoming, self._limits) as form:
                return await asyncio.to_thread(self._accept, form)

    def _accept(self, form: MultipartForm) -> IngestReceipt:
        reach(FaultPoint.UPLOAD_RECEIVED)
        files = [file for file in form.files if file.field == "images"]
        manifest = self._manifest(form, files)
        pictures, rejected = self._inspected(files)
        kept_since = (now := self._clock()) - self._delete_grace_s
        received, unwanted = self._described(pictures, manifest, kept_since, form.fields.get("restore") != "false")
        rejected += unwanted
        if not received:
            raise NothingAccepted([vars(file) for file in rejected])
        job_id, outcomes = self._store.take_in(received, now, kept_since)
        reach(FaultPoint.UPLOAD_COMMITTED)
        accepted, refused = by_outcome(received, outcomes)
        rejected += refused
        if not accepted:
            raise NothingAccepted([vars(file) for file in rejected])
        self._wake()
        return IngestReceipt(job_id, accepted, rejected)

    def _inspected(self, files: Sequence[UploadedFile]) -> tuple[list[_Picture], list[RejectedFile]]:
        """The files that hold a picture by their headers, and the others."""
        pictures, rejected = list[_Picture](), list[RejectedFile]()
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
                pictures.append(self._picture_in(file))
            except UnreadablePicture as unreadable:
                rejected.append(RejectedFile(name, unreadable.detail))
            except DecodeFailed as failed:
                failed_looks += 1
                advice = "Save the picture anew with another program, or send it again."
                rejected.append(RejectedFile(name, f"{failed.reason} {advice}", retryable=not failed.final))
        return pictures, rejected

    def _picture_in(self, file: UploadedFile) -> _Picture:
        """The picture in the file; UnreadablePicture if there is none that is accepted."""
        if file.problem is not None:
            raise UnreadablePicture(file.problem)
        return _Picture(file, image_id_of(file.sha256), self._inspect(file.path))

    def _find_known(self, kept_since: float, image_id: str) -> Image | None:
        """A known picture; None also where it was deleted before `kept_since`, which is final."""
        image = self._store.image(image_id)
        return None if image is None or image.is_gone(kept_since) else image

    def _described(
        self, pictures: Sequence[_Picture], manifest: Mapping[str, ManifestEntry], kept_since: float, restore: bool
    ) -> tuple[list[ReceivedPicture], list[RejectedFile]]:
        """The pictures with their descriptions from the manifest, and those whose descriptions are too long, or, unless
        `restore`, that are deleted, whether finally or not."""
        described = DescribedPictures(partial(self._find_known, kept_since))
        received, refused, dated = list[ReceivedPicture](), list[RejectedFile](), set[str]()
        for picture in pictures:
            name, entry = picture.file.filename, manifest.get(picture.file.filename, ManifestEntry())
            if not restore and (known := self._store.image(picture.image_id)) and known.deleted_at is not None:
                refused.append(RejectedFile(display_name(name), LEFT_DELETED, deleted=True))
                continue
            if (entry.default_captions or entry.default_taken_at) and described.is_new(picture.image_id):
                entry = entry.of_new_picture(is_dated=picture.image_id in dated)
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
            if entry.taken_at is not None:
                dated.add(picture.image_id)
        return received, refused

    def _manifest(self, form: MultipartForm, files: Sequence[UploadedFile]) -> Mapping[str, ManifestEntry]:
        """The form's manifest, by file name. Gives the files the names that it has for them."""
        text = self._fields(form).get("manifest", "{}")
        for file in files:
            file.filename = composed(file.filename)
        raw_names = [raw for file in files if (raw := composed(file.raw_name)) != file.filename]
        entries = parse_manifest(text, (file.filename for file in files), raw_names)
        by_escaped = {escaped(name): name for name in entries}
        contents: dict[str, str] = {}
        for file in files:
            raw = escaped(composed(file.raw_name))
            if file.filename not in entries and raw in by_escaped:
                file.filename = by_escaped[raw]  # the manifest shows which escapes are the name's own
            if contents.setdefault(file.filename, file.sha256) != file.sha256 and file.filename in entries:
                raise InvalidRequest.field(
                    "manifest", f"{display_name(file.filename)!r} is the name of several files sent; rename all but one"
                )
        return entries

    def _fields(self, form: MultipartForm) -> Mapping[str, str]:
        """The form's fields `manifest` and `restore`, as far as it has them; InvalidRequest where it has others."""
        texts = dict(form.fields)
        for file in form.files:
            if file.field == "manifest":  # as curl sends -F manifest=@manifest.json
                texts["manifest"] = self._read_text(file)
            elif file.field != "images":
                raise InvalidRequest.field(display_name(file.field), "files are sent in the field `images`")
        form.require_file("images")
        unknown = next((name for name in texts if name not in ("manifest", "restore")), None)
        if unknown is not None:
            raise InvalidRequest.field(
                display_name(unknown), "there is no such field; a form has `images`, `manifest` and `restore`"
            )
        if texts.get("restore", "true") not in ("true", "false"):
            raise InvalidRequest.field("restore", "is true or false")
        return texts

    def _read_text(self, file: UploadedFile) -> str:
        if file.problem is not None or file.size > self._limits.max_field_bytes:
            raise TooLarge("The manifest is too long; send the files in several requests.")
        try:
            return file.path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise InvalidRequest.field("manifest", "is not UTF-8 text") from None
