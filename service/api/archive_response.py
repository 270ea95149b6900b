"""The originals of several pictures as one ZIP archive, sent as it is read."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import PurePosixPath

from fastapi.concurrency import iterate_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from index.records import Image
from service.api.admission.request_slots import RequestSlots
from service.api.middleware.content_policy import DOWNLOAD_IN_FRAME
from service.api.original_files import OriginalFiles
from service.storage.picture_names import names_of, portable_name
from service.storage.zip_stream import ZipEntry, zip_length, zip_parts

ZIP = "application/zip"


class ArchiveResponse(StreamingResponse):
    """An archive, which holds a slot while it is sent, and whose files are closed when the client hangs up.

    The slot is taken when sending begins, since many requests may be admitted before; Overloaded is raised then.
    """

    def __init__(self, images: Sequence[Image], files: OriginalFiles, slots: RequestSlots, filename: str) -> None:
        entries = entries_of(images)
        self._parts: Iterator[bytes] = zip_parts(entries, lambda place: files.open(images[place]))
        self._slots = slots
        headers = {
            "Content-Disposition": f'attachment; filename="{filename}"',
            "Cache-Control": "no-store",
            "Content-Length": str(zip_length(entries)),
            **DOWNLOAD_IN_FRAME,
        }
        super().__init__(iterate_in_threadpool(self._parts), headers=headers, media_type=ZIP)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the archive while there is a slot."""
        with self._slots.taken(), closing(self._parts):  # type: ignore[type-var]
            await super().__call__(scope, receive, send)


def entries_of(images: Iterable[Image]) -> list[ZipEntry]:
    """An entry for each picture, with the time that it was taken, else added, and a name of its own: different also
    where upper and lower case are one. Any system can have the names, since nobody knows where it is unpacked."""
    files, folders = set[str](), set[str]()
    entries: list[ZipEntry] = []
    for image in images:
        for name in names_of(image.image_id, image.extension, portable_name(image.filename)):
            folded = name.casefold()
            above = {parent.as_posix() for parent in PurePosixPath(folded).parents}
            if folded not in files | folders and not above & files:
                break
        files.add(folded)
        folders |= above
        entries.append(ZipEntry(name, image.num_bytes, image.added_at if image.taken_at is None else image.taken_at))
    return entries
