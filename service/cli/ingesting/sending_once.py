"""Files that are sent to a service once: known files are left out, and deleted pictures stay deleted."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path

from pydantic import SecretStr

from regard_client import Client, Receipt, upload_batches
from service.cli.connection import connect
from service.cli.ingesting.descriptions import Descriptions
from service.cli.ingesting.sending import found_pictures, pictures_to_upload, take_receipts, upload_receipts
from service.cli.ingesting.still_files import FileState, SentFiles, state_of
from service.cli.ingesting.summary import IngestSummary
from service.cli.terminal.output import print_note, visible
from service.errors import UserError
from service.ingest.filenames import display_name
from service.storage.originals import image_id_of_file

MOST_NAMED = 5  # files named in one line
States = Mapping[Path, FileState]
PathNames = Mapping[Path, str]


class OnceSender:
    """Sends files, and records each in `sent` once the service has answered.

    `left_out` lists those whose contents were sent before under another name or date.
    """

    def __init__(
        self,
        client: Client,
        sent: SentFiles,
        postpone: Callable[[Path], bool] = lambda _: True,
        needs_record: bool = True,
    ) -> None:
        """`postpone` is called for files that the service did not check in time; if False, they are not sent again.

        If the record cannot be written, an OSError ends the sending, unless it goes on without one.
        """
        self.left_out: list[Path] = []
        self._client, self._sent, self._postpone = client, sent, postpone
        self._needs_record, self._is_recorded = needs_record, True

    def receipts(
        self, files: States, names: PathNames, descriptions: Descriptions, albums: PathNames, restore: bool = False
    ) -> Iterator[tuple[Receipt, Set[str]]]:
        """The receipts of files, each with the names of those postponed. `restore`: bring back deleted pictures."""
        contents = dict[Path, str | None]()
        pictures = pictures_to_upload(self._with_new_contents(files, names, contents), descriptions, albums)
        for batch in upload_batches(pictures):
            receipts = list(upload_receipts(self._client, batch, restore))  # several if the service has lower limits
            rejected = [one for receipt in receipts for one in receipt.rejected]
            again = {one["filename"] for one in rejected if one.get("retryable")}
            refused = {one["filename"] for one in rejected}
            deleted = {one["filename"] for one in rejected if one.get("deleted")}
            accepted = {one["image_id"] for receipt in receipts for one in receipt.accepted}
            postponed = set[str]()
            for path, name in ((one.content, one.name) for one in batch):
                assert isinstance(path, Path)
                known_as = {name, display_name(name)}  # here, and in the service
                is_known = contents[path] in accepted or known_as & deleted
                if known_as & again and self._postpone(path):
                    postponed |= known_as
                elif (
                    is_known or known_as & refused or not again
                ):  # else it may be one of them, by a name of the service
                    self._record(path, files[path], contents[path] if is_known else None)
            yield from ((receipt, postponed) for receipt in receipts)

    def _record(self, path: Path, state: FileState, content: str | None) -> None:
        try:
            self._sent.add(path, state, content)
        except OSError as fault:
            if self._needs_record:
                raise
            if self._is_recorded:
                print_note(f"what is sent cannot be recorded, and is sent again at the next start: {fault}")
            self._is_recorded = False

    def _with_new_contents(
        self, files: States, names: PathNames, contents: dict[Path, str | None]
    ) -> Iterator[tuple[str, Path]]:
        """(name, file) of each file with new content. Puts the files' content ids into `contents`; None: unreadable."""
        before = list[str]()
        for path, state in files.items():
            content = None
            with suppress(OSError):  # reported when it is sent
                content = image_id_of_file(path)
            contents[path] = content
            if content is None or not self._sent.has_content(content):
                yield names[path], path
            elif state_of(path) == state:  # if it has changed since, the next look checks it again
                self._record(path, state, content)
                self.left_out.append(path)
                before.append(names[path])
        if before:
            print_note(f"sent before under another name or date: {first_names(before)}")


def send_folder_once(url: str, folder: Path, api_key: SecretStr, albums: bool) -> IngestSummary:
    """Send the pictures of a folder that were not sent before, and wait until they are searchable. UserError if that
    fails. `albums`: tag pictures with the names of their folders."""
    found = found_pictures([folder])
    names = {path: name for name, path in found.pictures}
    states = {path: state for path in names if (state := state_of(path)) is not None}
    summary = IngestSummary(skipped=dict(found.skipped))
    with connect(url, api_key) as client:
        try:
            sent = open_sent_files(client, [folder], client.models().get("collection"))
        except UserError as fault:
            print_note(f"{fault}. All files are sent.")
            sent = SentFiles(Path(os.devnull))
        files = {path: state for path, state in states.items() if not sent.has(path, state)}
        sender = OnceSender(client, sent, needs_record=False)
        receipts = sender.receipts(files, names, {}, found.albums if albums else {})
        take_receipts(client, (receipt for receipt, _ in receipts), len(files), summary)
        left_out = [path for path in states if path not in files] + sender.left_out
        deleted = {one["image_id"] for one in client.images(deleted=True)}
        left_deleted = sum(sent.content_of(path) in deleted for path in left_out)
        summary.left_deleted += left_deleted
        summary.left_out += len(left_out) - left_deleted
    return summary


def open_sent_files(client: Client, folders: Sequence[Path], collection: str | None) -> SentFiles:
    """The record of files sent from these folders to this collection. UserError if it cannot be written."""
    try:
        path = sent_files_path(client.url, folders)
        sent = SentFiles(path)
    except RuntimeError as fault:  # from Path.home
        raise UserError(f"sent files are not recorded: {fault} XDG_STATE_HOME names a folder for that") from fault
    except OSError as fault:
        why = f"{path}, which records sent files, cannot be written: {fault.strerror}"
        raise UserError(f"{why}; XDG_STATE_HOME names another folder for it") from fault
    sent.switch_to(collection)
    if len(sent):
        print_note(f"left out if unchanged: {len(sent)} files sent before, listed in {path}")
    return sent


def first_names(names: Sequence[str]) -> str:
    """The first MOST_NAMED names, and the number of others."""
    first = ", ".join(map(visible, names[:MOST_NAMED]))
    return first if len(names) <= MOST_NAMED else f"{first} and {len(names) - MOST_NAMED} more"


def sent_files_path(url: str, folders: Sequence[Path]) -> Path:
    """The file that records what was sent from these folders to this service, in the user's state folder (XDG)."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    state = given if given.is_absolute() else Path.home() / ".local" / "state"  # relative paths are invalid
    text = "\0".join([url, *sorted(str(folder.resolve()) for folder in folders)])
    return state / "regard" / f"sent-{hashlib.sha256(os.fsencode(text)).hexdigest()[:16]}.jsonl"
