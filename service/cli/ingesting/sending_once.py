"""Files that are sent to a service once: known files are left out, and deleted pictures stay deleted."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path

from pydantic import SecretStr

from regard_client import Client, Picture, Receipt, upload_batches
from service.cli.connection import connect
from service.cli.ingesting.sending import found_pictures, pictures_to_upload, take_receipts, upload_receipts
from service.cli.ingesting.sent_files import FileState, SentFiles, open_sent_files, state_of
from service.cli.ingesting.sidecars import Describe, describer
from service.cli.ingesting.summary import IngestSummary
from service.cli.terminal.output import note_names, print_note
from service.errors import UserError
from service.ingest.filenames import display_name
from service.storage.originals import image_id_of_file

States = Mapping[Path, FileState]
PathNames = Mapping[Path, str]
Contents = dict[Path, str | None]  # ids; None: unreadable


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
        self, files: States, names: PathNames, describe: Describe, restore: bool = False
    ) -> Iterator[tuple[Receipt, Set[str]]]:
        """The receipts of files, each with the names of those postponed. `restore`: bring back deleted pictures."""
        contents: Contents = {}
        pictures = pictures_to_upload(self._with_new_contents(files, names, contents), describe)
        for batch in upload_batches(pictures):
            receipts = list(upload_receipts(self._client, batch, restore))  # several if the service has lower limits
            postponed = self._record_answered(batch, receipts, files, contents)
            yield from ((receipt, postponed) for receipt in receipts)

    def _record_answered(
        self, batch: Sequence[Picture], receipts: Sequence[Receipt], files: States, contents: Contents
    ) -> Set[str]:
        """Record the files of a batch, except for those postponed. Returns the names of these."""
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
            # Without an answer by these names, it may be one of those to send again, by a name of the service.
            is_answered = is_known or known_as & refused or not again
            if known_as & again and self._postpone(path):
                postponed |= known_as
            elif is_answered:
                self._record(path, files[path], contents[path] if is_known else None)
        return postponed

    def _record(self, path: Path, state: FileState, content: str | None) -> None:
        try:
            self._sent.add(path, state, content)
        except OSError as fault:
            if self._needs_record:
                raise
            if self._is_recorded:
                print_note(f"what is sent cannot be recorded, and is sent again at the next start: {fault}")
            self._is_recorded = False

    def _with_new_contents(self, files: States, names: PathNames, contents: Contents) -> Iterator[tuple[str, Path]]:
        """(name, file) of each file with new content. Puts the files' content ids into `contents`."""
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
        note_names("sent before under another name or date", before)


def send_folder_once(url: str, folder: Path, api_key: SecretStr, albums: bool) -> IngestSummary:
    """Send the pictures of a folder that were not sent before, and wait until they are searchable. UserError if that
    fails. `albums`: tag pictures with the names of their folders."""
    found = found_pictures([folder], sidecars=True)
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
        receipts = sender.receipts(files, names, describer(found, {}, albums, summary))
        take_receipts(client, (receipt for receipt, _ in receipts), len(files), summary)
        left_out = [path for path in states if path not in files] + sender.left_out
        deleted = {one["image_id"] for one in client.images(deleted=True)}
        left_deleted = sum(sent.content_of(path) in deleted for path in left_out)
        summary.left_deleted += left_deleted
        summary.left_out += len(left_out) - left_deleted
    return summary
