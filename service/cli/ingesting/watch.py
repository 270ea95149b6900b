"""Watched folders: new and changed pictures are sent to a service once they are complete."""

import os
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path

from regard_client import Client, RegardError, RequestRefused
from service.cli.connection import advised
from service.cli.ingesting.descriptions import Descriptions
from service.cli.ingesting.postponed_files import PostponedFiles
from service.cli.ingesting.sending_once import OnceSender
from service.cli.ingesting.sent_files import FileState, SentFiles
from service.cli.ingesting.sidecars import describer
from service.cli.ingesting.still_files import StillFiles
from service.cli.ingesting.summary import IngestSummary
from service.cli.ingesting.upload_report import UploadReport
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
    """Watches folders by polling, which works on every file system, including network file systems."""

    def __init__(
        self,
        client: Client,
        folders: Sequence[Path],
        sent: SentFiles,
        still_for_s: float,
        descriptions: Descriptions,
        albums: bool = True,
        clock: Callable[[], float] = time.monotonic,
        sidecars: bool = True,
    ) -> None:
        """`albums`: tag pictures with the names of their folders. `sidecars`: describe them by files beside them."""
        self._client = client
        self._folders = folders
        self._sent = sent
        self._still = StillFiles(sent, still_for_s, clock)
        self._descriptions = descriptions
        self._albums, self._sidecars = albums, sidecars
        self._report = UploadReport(client)
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
            self._report.report_jobs()
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
    def summary(self) -> IngestSummary:
        """The outcome so far."""
        return self._report.summary

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
        return self._report.num_jobs

    @property
    def num_unsent(self) -> int:
        """The number of files of the last look that were not sent yet."""
        return self._still.num_unsent

    def finish(self) -> IngestSummary:
        """Print what is still pending, and return the outcome."""
        self._report.note_pending()
        if left := self.num_unsent:
            print_note(f"{left} files were not sent yet: the same command goes on with them")
        return self.summary

    def _send(self) -> None:
        began = self._clock()
        found = find_files(self._folders, self._sidecars)
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
        describe = describer(found, self._descriptions, self._albums, self.summary)
        for receipt, later in self._sender.receipts(ready, names, describe, self._restore):
            self._report.report_receipt(receipt, later)

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
