"""The outcome of an ingestion, reported by `ingest` and `ingest-features`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from service.cli.picture_files import LINKS_ELSEWHERE, RAW_PHOTOGRAPHS
from service.cli.terminal.output import print_json, print_note, print_table

if TYPE_CHECKING:
    from regard_client import Receipt
    from regard_client.answers import FailureAnswer

ABOUT_LINKS = (
    "links to folders, and out of the given one, are not followed: `regard ingest` of what they lead to adds it"
)
ABOUT_RAW = "RAW photographs are taken in if the extra `raw` is installed: pip install rawpy"
ABOUT_DELETED = "pictures that you deleted stay deleted: `regard ingest FILE` brings one back"


class SentFile(NamedTuple):
    """A file that the service accepted: its name, and whether its picture was stored already or deleted before."""

    name: str
    duplicate: bool
    restored: bool


@dataclass
class IngestSummary:
    """The outcome of all files: how many were accepted, stored already, or skipped by kind, and why others were
    rejected or failed later. `restored` counts accepted files whose pictures had been deleted, `left_deleted` files
    whose pictures stay deleted, `left_out` other files that were sent before, `described` new pictures with sidecars,
    `unread_sidecars` says why."""

    accepted: int = 0
    restored: int = 0
    duplicates: int = 0
    left_deleted: int = 0
    left_out: int = 0
    described: int = 0
    unread_sidecars: dict[str, str] = field(default_factory=dict)
    rejected: list[dict[str, str]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    _sent: dict[str, list[SentFile]] = field(default_factory=dict)  # picture id -> its files, including copies
    _described: set[str] = field(default_factory=set)  # names of pictures with sidecars

    def count_receipt(self, receipt: "Receipt") -> None:
        """Count the accepted and rejected files of a request."""
        for accepted in receipt.accepted:
            file = SentFile(accepted["filename"], accepted["duplicate"], accepted.get("restored", False))
            self.count_accepted(accepted["image_id"], file)
        for rejected in receipt.rejected:
            if rejected.get("deleted", False):
                self.left_deleted += 1
            else:
                self.count_rejected(rejected["filename"], rejected["problem"])

    def note_described(self, name: str) -> None:
        """Have a picture counted as described by sidecars if it is new."""
        self._described.add(name)

    def count_failures(self, failures: "Sequence[FailureAnswer]") -> None:
        """Count the pictures of a job that failed after they were accepted."""
        for one in failures:
            self.count_failed(one["image_id"], one["reason"])

    def count_accepted(self, image_id: str, file: SentFile) -> None:
        """Count a file that was accepted, stored already, or restored."""
        self._sent.setdefault(image_id, []).append(file)
        self._count(file, 1)

    def count_rejected(self, filename: str, problem: str) -> None:
        """Count a file that was rejected."""
        self.rejected.append({"filename": filename, "problem": problem})

    def count_failed(self, image_id: str, reason: str) -> None:
        """Count all files of a picture as failed instead of accepted.

        Several jobs may name the same picture, if its copies were in several requests; it is counted once.
        """
        for file in self._sent.pop(image_id, []):
            self.failed.append({"filename": file.name, "problem": reason})
            self._count(file, -1)

    def _count(self, file: SentFile, number: int) -> None:
        self.duplicates += number * file.duplicate
        self.accepted += number * (not file.duplicate)
        self.restored += number * (file.restored and not file.duplicate)
        self.described += number * (file.name in self._described and not (file.duplicate or file.restored))

    def as_dict(self) -> dict[str, Any]:
        """The outcome for JSON output."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


def finish_ingestion(summary: IngestSummary, as_json: bool) -> None:
    """Print the outcome; exit with status 1 if a file was rejected or failed."""
    if as_json:
        print_json(summary.as_dict())
    else:
        print_summary(summary)
    if summary.rejected or summary.failed:
        raise typer.Exit(1)


def skips_links(skipped: Mapping[str, int]) -> bool:
    """Whether links are among the skipped files."""
    return any(kind in skipped for kind in LINKS_ELSEWHERE)


def print_summary(summary: IngestSummary) -> None:
    """Print the outcome for people: the reasons of rejections and failures, then a table that counts every file."""
    for one in summary.rejected:
        print_note(f"turned away: {one['filename']}: {one['problem']}")
    for one in summary.failed:
        print_note(f"set aside: {one['filename']}: {one['problem']}")
    if RAW_PHOTOGRAPHS in summary.skipped:
        print_note(ABOUT_RAW)
    if skips_links(summary.skipped):
        print_note(ABOUT_LINKS)
    if summary.left_deleted:
        print_note(ABOUT_DELETED)
    rows = [["taken in", summary.accepted - summary.restored], ["of these, described by sidecars", summary.described]]
    rows += [["sidecars not read", len(summary.unread_sidecars)]]
    rows += [["deleted before, and brought back", summary.restored]]
    rows += [["there already", summary.duplicates], ["sent before, and left out", summary.left_out]]
    rows += [["deleted, and left so", summary.left_deleted]]
    rows += [[f"skipped: {kind}", count] for kind, count in sorted(summary.skipped.items())]
    rows += [[name, len(files)] for name, files in (("turned away", summary.rejected), ("set aside", summary.failed))]
    print_table("outcome", "files", rows=[[str(name), str(count)] for name, count in rows if count])
