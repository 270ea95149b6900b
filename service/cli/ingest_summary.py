"""The outcome of an ingestion, as `ingest` and `ingest-features` report it, and the captions that they add."""

from dataclasses import dataclass, field
from pathlib import Path

import typer

from models.datasets.captions import iter_captions
from service.cli.output import print_json, print_note
from service.errors import user_input


@dataclass
class IngestSummary:
    """Counts of files that were accepted or are stored already, and those rejected or failed later, with reasons."""

    accepted: int = 0
    duplicates: int = 0
    rejected: list[dict[str, str]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)


def captions_by_name(path: Path | None) -> dict[str, list[str]]:
    """The captions of each file in a captions file; none where there is no such file. UserError names a bad line."""
    if path is None:
        return {}
    with user_input(path):
        return {line.image: list(line.captions) for line in iter_captions(path)}


def finish_ingestion(summary: IngestSummary, as_json: bool) -> None:
    """Print the outcome and exit; the status is 1 where a file was rejected or failed."""
    if as_json:
        print_json(vars(summary))
    else:
        print_summary(summary)
    if summary.rejected or summary.failed:
        raise typer.Exit(1)


def print_summary(summary: IngestSummary) -> None:
    """Print the outcome for people."""
    for one in summary.rejected:
        print_note(f"turned away: {one['filename']}: {one['problem']}")
    for one in summary.failed:
        print_note(f"set aside: {one['filename']}: {one['problem']}")
    print(f"{summary.accepted} pictures taken in, {summary.duplicates} were there already")
