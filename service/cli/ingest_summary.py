"""The outcome of an ingestion, as `ingest` and `ingest-features` report it, and the captions that they add."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from models.datasets.captions import iter_captions
from service.cli.output import print_json, print_note, print_table, visible
from service.cli.picture_files import RAW_PHOTOGRAPHS
from service.errors import user_input
from service.ingest.manifest import LONGEST_SENT_CAPTION, MOST_SENT_CAPTIONS

if TYPE_CHECKING:
    from regard_client import Receipt
    from regard_client.answers import FailureAnswer

ABOUT_RAW = "RAW photographs are taken in where the extra `raw` is installed: pip install rawpy"


@dataclass
class IngestSummary:
    """The outcome for each file: counts of those accepted, stored already and, by their kind, passed over; reasons of
    those rejected or failed later.
    """

    accepted: int = 0
    duplicates: int = 0
    rejected: list[dict[str, str]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    _new: set[str] = field(default_factory=set)  # ids of pictures that were not stored before

    def count_receipt(self, receipt: "Receipt") -> None:
        """Count the files of a request: those that the server stored, or had, or turned away."""
        self._new |= {one["image_id"] for one in receipt.accepted if not one["duplicate"]}
        self.duplicates += sum(one["duplicate"] for one in receipt.accepted)
        self.accepted += sum(not one["duplicate"] for one in receipt.accepted)
        self.rejected += [{"filename": one["filename"], "problem": one["problem"]} for one in receipt.rejected]

    def count_failures(self, failures: "Sequence[FailureAnswer]") -> None:
        """Count accepted pictures that were set aside, no longer among those that are there."""
        for one in failures:
            self.failed.append({"filename": one["filename"], "problem": one["reason"]})
            if one["image_id"] in self._new:
                self.accepted -= 1
            else:
                self.duplicates -= 1

    def as_dict(self) -> dict[str, Any]:
        """The outcome as it is printed as JSON."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


def captions_by_name(path: Path | None, to_send: bool = True) -> dict[str, list[str]]:
    """The captions of each file in a captions file, of all its lines; none where there is no such file. UserError names
    a bad line, and of captions `to_send` one of more than a request may say of a picture."""
    if path is None:
        return {}
    found = defaultdict[str, list[str]](list)
    with user_input(path):
        for number, line in enumerate(iter_captions(path), 1):
            found[line.image] += [caption for caption in line.captions if caption not in found[line.image]]
            longest = max(map(len, line.captions), default=0)
            if to_send and longest > LONGEST_SENT_CAPTION:
                raise ValueError(
                    f"{path}:{number}: a caption has {longest} characters, and {LONGEST_SENT_CAPTION} at most"
                )
            if to_send and len(found[line.image]) > MOST_SENT_CAPTIONS:
                raise ValueError(f"{path}:{number}: {line.image} has more than {MOST_SENT_CAPTIONS} captions")
    return dict(found)


def tell_unmatched(captioned: Iterable[str], names: Collection[str]) -> None:
    """Say which pictures that have captions are not among those of these names."""
    if unmatched := sorted(set(captioned) - set(names)):
        print_note(
            f"{len(unmatched)} captioned pictures are not among those that are sent, as {visible(unmatched[0])}; names"
            f" are those below the folder given, as {visible(min(names))}"
        )


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
    rows = [["taken in", summary.accepted], ["there already", summary.duplicates]]
    rows += [[f"skipped: {kind}", count] for kind, count in sorted(summary.skipped.items())]
    rows += [[name, len(files)] for name, files in (("turned away", summary.rejected), ("set aside", summary.failed))]
    print_table("outcome", "files", rows=[[str(name), str(count)] for name, count in rows if count])
