"""Watched folders: new and changed pictures are sent to a service once they are complete."""

import os
import time
from collections import deque
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

from regard_client import Client, Receipt, RegardError, RequestRefused
from service.cli.connection import advised
from service.cli.ingesting.descriptions import Descriptions
from service.cli.ingesting.postponed_files import PostponedFiles
from service.cli.ingesting.sending_once import OnceSender, first_names
from service.cli.ingesting.still_files import FileState, SentFiles, StillFiles
from service.cli.ingesting.summary import IngestSummary
from service.cli.picture_files import find_files
from service.cli.terminal.output import print_note, visible
from service.errors import UserError

WATCH_EVERY_S = 1.0
COLLECTION_EVERY_S = 30.0  # interval for asking which collection the service has: a restart may change it
TROUBLE_PAUSE_S = 15.0  # after an error, so that refused files are not sent every second
REST = 10  # in units of the time to find the files, so that it takes less than a tenth of a processor
LONGEST_REST_S = 300.0
KEY_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


class FolderWatch:
    """Watches folders by polling, which works on every file system, including network file systems.

    `summary` is the outcome so far.
    """

    def __init__(
        self,
        client: Client,
        folders: Sequence[Path],
        sent: SentFiles,
        still_for_s: float,
        descriptions: Descriptions,
        albums: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`albums`: tag pictures with the names of their folders."""
        self.summary = IngestSummary()
        self._client = client
        self._folders = folders
        self._sent = sent
        self._still = StillFiles(sent, still_for_s, clock)
        self._descriptions = descriptions
        self._albums = albums
        self._jobs: deque[tuple[str, list[str]]] = deque()  # id, names of the new pictures
        self._unreadable: dict[Path, FileState] = {}
        self._postponed = PostponedFiles(clock)
        self._sender = OnceSender(client, sent, self._postponed.postpone)
        self._trouble = ""
        self._clock = clock
        self._ask_collection_at = float("-inf")
        self._collection: str | None = None
        self._restore = False  # by an earlier version of the service, which always does
        self._finding_s = 0.0  # of the last look

    def look(self) -> None:
        """Send complete files that were not sent yet, and report pictures that have become searchable.

        An unreachable service or a missing folder is reported once and then retried. RequestRefused if the service
        refuses the API key.
        """
        try:
            self._send()
            self._report_jobs()
        except (RegardError, UserError, OSError) as fault:
            if isinstance(fault, RequestRefused) and fault.status in KEY_REFUSED:
                raise
            message = advised(fault) if isinstance(fault, RegardError) else str(fault)
            if self._trouble != message:
                print_note(f"{message.removesuffix('.')}; trying again until it works")
            self._trouble = message
            self._ask_collection_at = min(self._ask_collection_at, self._clock())  # it may have changed meanwhile
        else:
            if self._trouble:
                print_note("it works again")
            self._trouble = ""

    def _follow_collection(self) -> None:
        """Switch to the current collection of the service, which lacks files that were sent to another one."""
        if self._clock() < self._ask_collection_at:
            return
        models = self._client.models()
        before, self._collection = self._collection, models.get("collection")
        self._restore = "collection" not in models
        if self._sent.switch_to(self._collection) and before is not None:  # None: an earlier version of the service
            print_note("the service has another collection of pictures now: files that it was not sent are sent to it")
        self._ask_collection_at = self._clock() + COLLECTION_EVERY_S

    @property
    def is_in_trouble(self) -> bool:
        """Whether the last look ended with an error."""
        return bool(self._trouble)

    @property
    def rest_s(self) -> float:
        """Seconds until the next look."""
        shortest = TROUBLE_PAUSE_S if self.is_in_trouble else WATCH_EVERY_S
        return max(shortest, min(REST * self._finding_s, LONGEST_REST_S))

    @property
    def num_jobs(self) -> int:
        """The number of jobs whose outcome was not reported yet."""
        return len(self._jobs)

    @property
    def num_unsent(self) -> int:
        """The number of files of the last look that were not sent yet."""
        return self._still.num_unsent

    def finish(self) -> IngestSummary:
        """Print what is still pending, and return the outcome."""
        with suppress(RegardError):
            self._report_jobs()
        if pending := sum(len(names) for _, names in self._jobs):
            print_note(f"{pending} pictures are with the service, which goes on finding their regions: `regard jobs`")
        if left := self.num_unsent:
            print_note(f"{left} files were not sent yet: the same command goes on with them")
        return self.summary

    def _send(self) -> None:
        began = self._clock()
        found = find_files(self._folders)
        self.summary.skipped = dict(found.skipped)
        names = {path: name for name, path in reversed(found.pictures)}
        still = {path: state for path, state in self._still.look(names).items() if not self._postponed.waits(path)}
        self._finding_s = self._clock() - began
        self._follow_collection()
        ready = {
            path: state
            for path, state in still.items()
            if not self._sent.has(path, state) and self._is_readable(path, state)
        }
        albums = found.albums if self._albums else {}
        for receipt, later in self._sender.receipts(ready, names, self._descriptions, albums, self._restore):
            self._report_receipt(receipt, later)

    def _is_readable(self, path: Path, state: FileState) -> bool:
        """Whether the file can be opened. If not, a note is printed, and it is tried again once it has changed."""
        if self._unreadable.get(path) == state and not os.access(path, os.R_OK):
            return False
        try:
            path.open("rb").close()
        except OSError as fault:
            self._unreadable[path] = state
            print_note(f"cannot be read: {visible(str(path))}: {fault.strerror}")
            return False
        return True

    def _report_receipt(self, receipt: Receipt, later: Container[str]) -> None:
        """Count and print the outcome of a request's files, except for names that will be sent again `later`."""
        if waiting := [one["filename"] for one in receipt.rejected if one["filename"] in later]:
            print_note(f"not checked in time, and sent again later: {first_names(waiting)}")
        receipt = replace(receipt, rejected=[one for one in receipt.rejected if one["filename"] not in later])
        self.summary.count_receipt(receipt)
        if deleted := [one["filename"] for one in receipt.rejected if one.get("deleted")]:
            print_note(f"deleted before, and left so: {first_names(deleted)}")
        for one in receipt.rejected:
            if not one.get("deleted"):
                print_note(f"turned away: {visible(one['filename'])}: {one['problem']}")
        if there := [one["filename"] for one in receipt.accepted if one["duplicate"]]:
            print_note(f"there already: {first_names(there)}")
        if restored := [one["filename"] for one in receipt.accepted if one.get("restored")]:
            print_note(f"deleted before, and brought back: {first_names(restored)}")
        if receipt.job_id is not None:
            new = [one["filename"] for one in receipt.accepted if not one["duplicate"]]
            self._jobs.append((receipt.job_id, new))

    def _report_jobs(self) -> None:
        while self._jobs:
            job_id, names = self._jobs[0]
            try:
                job = self._client.job(job_id)
            except RequestRefused as refused:
                if refused.status != HTTPStatus.NOT_FOUND:
                    raise
                self._jobs.popleft()
                print_note(f"the service no longer knows the outcome of {first_names(names)}")
                continue
            if job["state"] != "done":
                return
            self._jobs.popleft()
            self.summary.count_failures(job["failures"])
            for one in job["failures"]:
                print_note(f"set aside: {visible(one['filename'])}: {one['reason']}")
            failed = {one["filename"] for one in job["failures"]}
            if found := [name for name in names if name not in failed]:
                print_note(f"can be found: {first_names(found)}")


def watch_until_interrupted(watch: FolderWatch, sleep: Callable[[float], None] = time.sleep) -> IngestSummary:
    """Look repeatedly until Ctrl-C, which is safe at any time: a file counts as sent once the service has answered.

    RequestRefused if the service refuses the API key.
    """
    try:
        while True:
            watch.look()
            sleep(watch.rest_s)
    except KeyboardInterrupt:
        print_note("")
    except RequestRefused:
        watch.finish()
        raise
    return watch.finish()
