"""The outcome of an ingestion, as `ingest` and `ingest-features` report it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from service.cli.picture_files import RAW_PHOTOGRAPHS
from service.cli.terminal.output import print_json, print_note, print_table

if TYPE_CHECKING:
    from regard_client import Receipt
    from regard_client.answers import FailureAnswer

ABOUT_RAW = "RAW photographs are taken in where the extra `raw` is installed: pip install rawpy"


class SentFile(NamedTuple):
    """A file that the service took: its name, and what was known of its picture before."""

    name: str
    duplicate: bool
    restored: bool


@dataclass
class IngestSummary:
    """The outcome for each file: counts of those accepted, stored already and, by their kind, passed over; reasons of
    those rejected or failed later. `restored` are those accepted whose pictures had been deleted.
    """

    accepted: int = 0
    restored: int = 0
    duplicates: int = 0
    rejected: list[dict[str, str]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    _sent: dict[str, list[SentFile]] = field(default_factory=dict)  # ids of pictures -> their files, copies among them

    def count_receipt(self, receipt: "Receipt") -> None:
        """Count the files of a request: those that the server stored, or had, or turned away."""
        for accepted in receipt.accepted:
            file = SentFile(accepted["filename"], accepted["duplicate"], accepted.get("restored", False))
            self.count_accepted(accepted["image_id"], file)
        for rejected in receipt.rejected:
            self.count_rejected(rejected["filename"], rejected["problem"])

    def count_failures(self, failures: "Sequence[FailureAnswer]") -> None:
        """Count the accepted pictures of a job that were set aside."""
        for one in failures:
            self.count_failed(one["image_id"], one["reason"])

    def count_accepted(self, image_id: str, file: SentFile) -> None:
        """Count a file that is stored now, or was before, or was deleted and came back."""
        self._sent.setdefault(image_id, []).append(file)
        self._count(file, 1)

    def count_rejected(self, filename: str, problem: str) -> None:
        """Count a file that was turned away."""
        self.rejected.append({"filename": filename, "problem": problem})

    def count_failed(self, image_id: str, reason: str) -> None:
        """Count every file of an accepted picture that was set aside, no longer among those that are there.

        The jobs of several requests that held copies name the picture each; it is counted once.
        """
        for file in self._sent.pop(image_id, []):
            self.failed.append({"filename": file.name, "problem": reason})
            self._count(file, -1)

    def _count(self, file: SentFile, number: int) -> None:
        self.duplicates += number * file.duplicate
        self.accepted += number * (not file.duplicate)
        self.restored += number * (file.restored and not file.duplicate)

    def as_dict(self) -> dict[str, Any]:
        """The outcome as it is printed as JSON."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


def finish_ingestion(summary: IngestSummary, as_json: bool) -> None:
    """Print the outcome and exit; the status is 1 where a file was rejected or failed."""
    if as_json:
        print_json(summary.as_dict())
    else:
        print_summary(summary)
    if summary.rejected or summary.failed:
        raise typer.Exit(1)


def print_summary(summary: IngestSummary) -> None:
    """Print the outcome for people: a table in which every file is counted, and before it what has a reason."""
    for one in summary.rejected:
        print_note(f"turned away: {one['filename']}: {one['problem']}")
    for one in summary.failed:
        print_note(f"set aside: {one['filename']}: {one['problem']}")
    if RAW_PHOTOGRAPHS in summary.skipped:
        print_note(ABOUT_RAW)
    rows = [["taken in", summary.accepted - summary.restored], ["deleted before, and brought back", summary.restored]]
    rows += [["there already", summary.duplicates]]
    rows += [[f"skipped: {kind}", count] for kind, count in sorted(summary.skipped.items())]
    rows += [[name, len(files)] for name, files in (("turned away", summary.rejected), ("set aside", summary.failed))]
    print_table("outcome", "files", rows=[[str(name), str(count)] for name, count in rows if count])
