"""The client that waits for its answers. Written by generate_client.py from async_client.py."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, Unpack

import httpx

from regard_client import calls
from regard_client.answers import (
    CaptionsAnswer,
    DatesAnswer,
    FailuresAnswer,
    ImageInfo,
    ImageListed,
    ImagesAnswer,
    IngestAnswer,
    JobAnswer,
    JobsAnswer,
    ModelListed,
    ModelsAnswer,
    PictureEdit,
    PictureFilter,
    ReadyAnswer,
    RegionsAnswer,
    RetryAnswer,
    SimilarAnswer,
    TagListed,
    TagsAnswer,
    TextAnswer,
)
from regard_client.call import Call, kind_of, refusal, saved_file, unreachable
from regard_client.connection import TIMEOUT, is_this_machine, reading_environment, request_headers, server_url
from regard_client.errors import RegardError, RequestRefused, ServerUnreachable
from regard_client.jobs import JobWait
from regard_client.options import SearchOptions, SimilarSearchOptions, Sort, TextSearchOptions
from regard_client.pictures import (
    MAX_BATCH_BYTES,
    MAX_BATCH_FILES,
    Content,
    Picture,
    Receipt,
    nothing_accepted,
    receipt_of,
    smaller_batches,
    upload_batches,
)
from regard_client.retries import ONCE, PATIENT, OnWait, Retries, Tries, wait_in_silence

A = TypeVar("A")


class Client:
    """A client of one server, which repeats requests that an overloaded server or a rate limit refused.

    Threads may share a client.
    It holds connections until it is closed; `with Client() as client:` closes it.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        retries: Retries = PATIENT,
        on_wait: OnWait = wait_in_silence,
        timeout: httpx.Timeout = TIMEOUT,
        sleep: Callable[[float], None] = time.sleep,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Connect to `url`, else to REGARD_URL or this machine, with `api_key`, else REGARD_API_KEY.

        `on_wait` is called with the reason and the seconds of each pause for a server that is overloaded or away.
        """
        self.url = server_url(url)
        self._retries = retries
        self._on_wait = on_wait
        self._sleep = sleep
        self._was_there = False  # whether the server ever answered
        headers = request_headers(api_key)
        with reading_environment():
            self._http = httpx.Client(
                base_url=self.url,
                headers=headers,
                timeout=timeout,
                transport=transport,
                trust_env=not is_this_machine(self.url),
            )

    def __repr__(self) -> str:
        """The address of the server; never the key."""
        return f"{type(self).__name__}({self.url!r})"

    # Searching

    def search_text(self, query: str, **options: Unpack[TextSearchOptions]) -> TextAnswer:
        """Pictures for a sentence, best first."""
        return self._send(calls.search_text(query, options))

    def search_captions(
        self, picture: Content | None = None, *, image_id: str | None = None, **options: Unpack[SearchOptions]
    ) -> CaptionsAnswer:
        """Captions that describe a picture, which is a file or a stored one; best first."""
        return self._send(calls.search_captions(picture, image_id, options))

    def search_similar(
        self, picture: Content | None = None, *, image_id: str | None = None, **options: Unpack[SimilarSearchOptions]
    ) -> SimilarAnswer:
        """Pictures like a picture, which is a file or a stored one; best first.

        With `query` they should also show what it says.
        """
        return self._send(calls.search_similar(picture, image_id, options))

    def explain_png(self, image_id: str, query: str, model: str | None = None) -> bytes:
        """A PNG that explains why a stored picture answers a sentence: for each content word, its strongest region."""
        return self._send(calls.explain_png(image_id, query, model))

    # Taking pictures in

    def ingest(self, pictures: Iterable[Picture | str | Path], *, restore: bool = True) -> IngestAnswer:
        """Send pictures in one request. Raises RequestRefused if none is accepted. `restore`: also deleted ones."""
        return self._send(calls.ingest(pictures, restore))

    def upload(
        self,
        pictures: Iterable[Picture | str | Path],
        *,
        max_files: int = MAX_BATCH_FILES,
        max_bytes: int = MAX_BATCH_BYTES,
        restore: bool = True,
    ) -> Iterator[Receipt]:
        """Send any number of pictures in batches, and yield the receipt of each batch once the server has it.

        A batch that is too large for the server is sent in halves, each with its own receipt. `restore`: also
        deleted pictures.
        """
        for batch in upload_batches(pictures, max_files, max_bytes):
            yield from self._receipts(batch, restore)

    def _receipts(self, batch: Sequence[Picture], restore: bool) -> Iterator[Receipt]:
        try:
            receipt = receipt_of(self.ingest(batch, restore=restore))
        except RequestRefused as refused:
            if smaller := smaller_batches(batch, refused):
                for half in smaller:
                    for receipt in self._receipts(half, restore):
                        yield receipt
                return
            receipt = nothing_accepted(batch, refused)
        yield receipt

    def job(self, job_id: str) -> JobAnswer:
        """The progress of an ingestion."""
        return self._send(calls.job(job_id))

    def jobs(self, limit: int | None = None, *, after: str | None = None) -> JobsAnswer:
        """A page of the ingestions, the last one first; `limit` of them, or as many as the server chooses. Its `next`
        is the next page's `after`, None on the last page."""
        return self._send(calls.jobs(limit, after))

    def follow(
        self, job_id: str, *, seconds_between: float = 0.5, timeout_s: float | None = None
    ) -> Iterator[JobAnswer]:
        """The job's states, each different from the one before; in the last one it is done.

        Raises JobUnfinished if the next request would come after `timeout_s` seconds.
        """
        wait = JobWait(job_id, seconds_between, timeout_s)
        while True:
            if wait.is_news(state := self.job(job_id)):
                yield state
            if state["state"] == "done":
                return
            self._sleep(wait.pause())

    def wait(self, job_id: str, *, seconds_between: float = 0.5, timeout_s: float | None = None) -> JobAnswer:
        """The job once it is done: all its pictures can be found, except those in `failures`."""
        for state in self.follow(job_id, seconds_between=seconds_between, timeout_s=timeout_s):
            last = state
        return last

    def failures(self, *, after: str | None = None, limit: int | None = None) -> FailuresAnswer:
        """A page of the pictures that failed, with their reasons; its `next` is the next page's `after`, None on the
        last page."""
        return self._send(calls.failures(after, limit))

    def retry(self, image_id: str) -> RetryAnswer:
        """Try a failed picture again, in a new job."""
        return self._send(calls.retry(image_id))

    # Stored pictures

    def images(
        self,
        *,
        filter: PictureFilter | None = None,
        sort: Sort | None = None,
        deleted: bool = False,
        page_size: int = 100,
    ) -> Iterator[ImageListed]:
        """All stored pictures that pass the filter, requested page by page; with `deleted`, the deleted ones that can
        still be restored."""
        after: str | None = None
        while True:
            page = self.images_page(after=after, limit=page_size, sort=sort, filter=filter, deleted=deleted)
            yield from page["images"]
            if (after := page["next"]) is None:
                return

    def images_page(
        self,
        *,
        after: str | None = None,
        limit: int = 100,
        sort: Sort | None = None,
        filter: PictureFilter | None = None,
        deleted: bool = False,
    ) -> ImagesAnswer:
        """A page of stored pictures; its `next` is the next page's `after`, None on the last page."""
        return self._send(calls.images(after, limit, sort, filter, deleted))

    def tags(
        self, search: str | None = None, *, values: int | None = None, page_size: int = 100
    ) -> Iterator[TagListed]:
        """All tags in use whose name or values contain `search`, requested page by page."""
        after: str | None = None
        while True:
            page = self.tags_page(search, after=after, limit=page_size, values=values)
            yield from page["tags"]
            if (after := page["next"]) is None:
                return

    def tags_page(
        self, search: str | None = None, *, after: str | None = None, limit: int = 100, values: int | None = None
    ) -> TagsAnswer:
        """A page of tags, each with at most `values` of its values."""
        return self._send(calls.tags(search, after, limit, values))

    def dates(self) -> DatesAnswer:
        """The months in which pictures were taken, with their numbers."""
        return self._send(calls.dates())

    def info(self, image_id: str) -> ImageInfo:
        """Everything known of a picture."""
        return self._send(calls.info(image_id))

    def regions(self, image_id: str) -> RegionsAnswer:
        """The regions found in a picture, best first."""
        return self._send(calls.regions(image_id))

    def picture(self, image_id: str) -> bytes:
        """A picture as a file that browsers show, without its metadata."""
        return self._send(calls.picture(image_id))

    def original(self, image_id: str) -> bytes:
        """A picture's file as it was uploaded, with its metadata."""
        return self._send(calls.original(image_id))

    def archive(self, image_ids: Iterable[str], path: str | Path) -> None:
        """Save the original files of up to 1000 pictures as a ZIP file, written as it comes. Raises OSError where it
        cannot be written."""
        self._send(calls.archive(image_ids, path))

    def thumbnail(self, image_id: str) -> bytes:
        """A small JPEG of a picture."""
        return self._send(calls.thumbnail(image_id))

    def deleted_thumbnail(self, image_id: str) -> bytes:
        """A small JPEG of a deleted picture, while it can still be restored."""
        return self._send(calls.deleted_thumbnail(image_id))

    def edit(self, image_id: str, **changes: Unpack[PictureEdit]) -> ImageListed:
        """Change captions, tags, date or name, and return the changed picture. None removes; omitted fields stay."""
        return self._send(calls.edit(image_id, changes))

    def delete(self, image_id: str) -> None:
        """Delete a picture."""
        self._send(calls.delete(image_id))

    def restore(self, image_id: str) -> ImageListed:
        """Undo a deletion while that is possible, and return the picture."""
        return self._send(calls.restore(image_id))

    # The server

    def models(self) -> ModelsAnswer:
        """The models of the server, and the number of pictures that each can search."""
        return self._send(calls.models())

    def build(self, name: str) -> ModelListed:
        """Build the view of a model that the server's settings leave out."""
        return self._send(calls.build(name))

    def is_alive(self) -> bool:
        """Whether a server answers at all."""
        try:
            self._send(calls.live())
        except RegardError:
            return False
        return True

    def ready(self) -> ReadyAnswer:
        """The checks of a server that can search and ingest. Raises RequestRefused, with the checks, if it cannot."""
        return self._send(calls.ready())

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def _send(self, call: Call[A]) -> A:
        tries = Tries(self._retries if call.again else ONCE, call.twice)
        while True:
            reason: RegardError
            try:
                with call.request(self._http) as request, unreachable(self.url):
                    answer = self._http.send(request, stream=call.into is not None)
                    if call.into is not None:
                        self._save(answer, call.into)
            except ServerUnreachable as fault:
                pause, reason = tries.pause_while_away(fault) if self._was_there else None, fault
                if pause is None:
                    raise
            else:
                self._was_there = True
                pause = tries.pause(answer.status_code, answer.headers, kind_of(answer))
                if pause is None:
                    return call.result(answer, self.url)
                reason = refusal(answer)
            self._on_wait(reason, pause)
            self._sleep(pause)

    def _save(self, answer: httpx.Response, path: Path) -> None:
        """Write a successful answer to a file; read any other."""
        try:
            if not answer.is_success:
                answer.read()
                return
            with saved_file(path) as file:
                for part in answer.iter_bytes():
                    file.write(part)
        finally:
            answer.close()
