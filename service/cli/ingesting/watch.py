"""Folders that are watched: what comes into them is sent to a service as soon as it is whole."""

import hashlib
import os
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

from regard_client import Client, Receipt, RegardError, RequestRefused, upload_batches
from service.cli.connection import advised
from service.cli.ingesting.descriptions import Descriptions
from service.cli.ingesting.postponed_files import PostponedFiles
from service.cli.ingesting.sending import described, receipts_of
from service.cli.ingesting.still_files import FileState, SentFiles, StillFiles, state_of
from service.cli.ingesting.summary import IngestSummary
from service.cli.picture_files import find_files
from service.cli.terminal.output import print_note, visible
from service.errors import UserError
from service.ingest.filenames import display_name
from service.storage.originals import image_id_of_file

WATCH_EVERY_S = 1.0
COLLECTION_EVERY_S = 30.0  # the service is asked which collection it has, which may be another after a restart
# Where a service or a folder could not be reached: files that it refuses are not sent every second.
TROUBLE_PAUSE_S = 15.0
REST = 10  # times as long as finding files took, which costs less than a tenth of a processor
LONGEST_REST_S = 300.0
KEY_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
MOST_NAMED = 5  # files in one line


class FolderWatch:
    """Watches folders by looking at them again and again, which works on every file system, also on those of a network.

    What it did so far stands in `summary`.
    """

    def __init__(
        self,
        client: Client,
        folders: Sequence[Path],
        sent: SentFiles,
        still_for_s: float,
        said: Descriptions,
        albums: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`said` of pictures by the names of files; `albums`: with the names of their folders as tags."""
        self.summary = IngestSummary()
        self._client = client
        self._folders = folders
        self._sent = sent
        self._still = StillFiles(sent, still_for_s, clock)
        self._said = said
        self._albums = albums
        self._jobs: deque[tuple[str, list[str]]] = deque()  # id, names of the pictures that were not there before
        self._unreadable: dict[Path, FileState] = {}
        self._postponed = PostponedFiles(clock)
        self._trouble = ""
        self._clock = clock
        self._ask_collection_at = float("-inf")
        self._collection: str | None = None
        self._finding_s = 0.0  # of the last look

    def look(self) -> None:
        """Send what is whole and was not sent yet, and tell of what can be found by now.

        A service that cannot be reached, and a folder that is not there, are told of once and waited for.
        RequestRefused where the service refuses the key, which waiting does not change.
        """
        try:
            self._send()
            self._tell_of_jobs()
        except (RegardError, UserError, OSError) as fault:
            if isinstance(fault, RequestRefused) and fault.status in KEY_REFUSED:
                raise
            said = advised(fault) if isinstance(fault, RegardError) else str(fault)
            if self._trouble != said:
                print_note(f"{said.removesuffix('.')}; trying again until it works")
            self._trouble = said
            self._ask_collection_at = min(self._ask_collection_at, self._clock())  # it may come back as another
        else:
            if self._trouble:
                print_note("it works again")
            self._trouble = ""

    def _follow_collection(self) -> None:
        """Turn to the collection that the service has now: what was sent to another one is not there."""
        if self._clock() < self._ask_collection_at:
            return
        before, self._collection = self._collection, self._client.models().get("collection")
        if self._sent.turn_to(self._collection) and before is not None:  # which an earlier version did not tell
            print_note("the service has another collection of pictures now: it is sent what it was not sent before")
        self._ask_collection_at = self._clock() + COLLECTION_EVERY_S

    @property
    def is_in_trouble(self) -> bool:
        """Whether the last look ended early."""
        return bool(self._trouble)

    @property
    def rest_s(self) -> float:
        """Seconds until the next look."""
        shortest = TROUBLE_PAUSE_S if self.is_in_trouble else WATCH_EVERY_S
        return max(shortest, min(REST * self._finding_s, LONGEST_REST_S))

    @property
    def num_jobs(self) -> int:
        """The number of jobs of what was sent of which it is not told yet what became of them."""
        return len(self._jobs)

    @property
    def num_unsent(self) -> int:
        """The number of files of the last look that were not sent yet."""
        return self._still.num_unsent

    def finish(self) -> IngestSummary:
        """Tell what is left undone, and the outcome."""
        with suppress(RegardError):
            self._tell_of_jobs()
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
        contents = dict[Path, str | None]()
        pictures = described(self._not_sent_before(ready, names, contents), self._said, albums)
        for batch in upload_batches(pictures):
            receipts = list(receipts_of(self._client, batch))  # several, where the service takes less in one request
            again = {one["filename"] for receipt in receipts for one in receipt.rejected if one.get("retryable")}
            accepted = {one["image_id"] for receipt in receipts for one in receipt.accepted}
            later = set[str]()
            for path, name in ((one.content, one.name) for one in batch):
                assert isinstance(path, Path)
                known_as = {name, display_name(name)}  # to us, and to the service
                if known_as & again and self._postponed.postpone(path):
                    later |= known_as
                else:
                    content = contents[path]
                    self._sent.add(path, ready[path], content if content in accepted else None)
            for receipt in receipts:
                self._tell_of_receipt(receipt, later)

    def _not_sent_before(
        self, ready: Mapping[Path, FileState], names: Mapping[Path, str], contents: dict[Path, str | None]
    ) -> Iterator[tuple[str, Path]]:
        """(name, file) of those whose bytes were not sent before under another name or date, one after the other.

        `contents` gets the id of what each holds: its bytes are read here.
        """
        before = list[str]()
        for path, state in ready.items():
            content = None
            with suppress(OSError):  # which is told of when it is sent
                content = image_id_of_file(path)
            contents[path] = content
            if content is None or not self._sent.has_content(content):
                yield names[path], path
            elif state_of(path) == state:  # another one is looked at again
                self._sent.add(path, state, content)
                before.append(names[path])
        if before:
            print_note(f"sent before by another name, or not changed within: {named(before)}")

    def _is_readable(self, path: Path, state: FileState) -> bool:
        """Whether the file can be opened. One that cannot is told of, and tried again when it has changed."""
        if self._unreadable.get(path) == state and not os.access(path, os.R_OK):
            return False
        try:
            path.open("rb").close()
        except OSError as fault:
            self._unreadable[path] = state
            print_note(f"cannot be read: {visible(str(path))}: {fault.strerror}")
            return False
        return True

    def _tell_of_receipt(self, receipt: Receipt, later: Container[str]) -> None:
        """Count and tell what became of the files of a request; those that are sent again `later` count then."""
        if waiting := [one["filename"] for one in receipt.rejected if one["filename"] in later]:
            print_note(f"not looked at in time, and sent again later: {named(waiting)}")
        receipt = replace(receipt, rejected=[one for one in receipt.rejected if one["filename"] not in later])
        self.summary.count_receipt(receipt)
        for one in receipt.rejected:
            print_note(f"turned away: {visible(one['filename'])}: {one['problem']}")
        if there := [one["filename"] for one in receipt.accepted if one["duplicate"]]:
            print_note(f"there already: {named(there)}")
        if restored := [one["filename"] for one in receipt.accepted if one.get("restored")]:
            print_note(f"deleted before, and brought back: {named(restored)}")
        if receipt.job_id is not None:
            new = [one["filename"] for one in receipt.accepted if not one["duplicate"]]
            self._jobs.append((receipt.job_id, new))

    def _tell_of_jobs(self) -> None:
        while self._jobs:
            job_id, names = self._jobs[0]
            try:
                job = self._client.job(job_id)
            except RequestRefused as refused:
                if refused.status != HTTPStatus.NOT_FOUND:
                    raise
                self._jobs.popleft()
                print_note(f"the service does not know any more what became of {named(names)}")
                continue
            if job["state"] != "done":
                return
            self._jobs.popleft()
            self.summary.count_failures(job["failures"])
            for one in job["failures"]:
                print_note(f"set aside: {visible(one['filename'])}: {one['reason']}")
            failed = {one["filename"] for one in job["failures"]}
            if found := [name for name in names if name not in failed]:
                print_note(f"can be found: {named(found)}")


def watch_until_interrupted(watch: FolderWatch, sleep: Callable[[float], None] = time.sleep) -> IngestSummary:
    """Look again and again until Ctrl-C, which leaves nothing half done: a file counts as sent once it is answered.

    RequestRefused where the service refuses the key.
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


def named(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    first = ", ".join(map(visible, names[:MOST_NAMED]))
    return first if len(names) <= MOST_NAMED else f"{first} and {len(names) - MOST_NAMED} more"


def sent_files_path(url: str, folders: Sequence[Path]) -> Path:
    """The file that keeps what was sent from these folders to that service, where a system keeps a program's state."""
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    state = named if named.is_absolute() else Path.home() / ".local" / "state"  # as its specification says
    text = "\0".join([url, *sorted(str(folder.resolve()) for folder in folders)])
    return state / "regard" / f"sent-{hashlib.sha256(os.fsencode(text)).hexdigest()[:16]}.jsonl"
