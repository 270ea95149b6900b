"""Picture files sent to a service, and what becomes of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from service.cli.connection import connect
from service.cli.ingest_summary import IngestSummary, captions_by_name
from service.cli.output import show_progress
from service.cli.picture_files import FoundFiles, find_files
from service.errors import UserError

if TYPE_CHECKING:
    from regard_client import Picture

ASK_EVERY_S = 0.2  # how far a job is


def send_files(
    url: str | None,
    paths: Sequence[Path],
    captions: Path | None = None,
    api_key: SecretStr | None = None,
    albums: bool = True,
) -> IngestSummary:
    """Send pictures with progress bars, and wait until they are searchable. UserError.

    With the key of the environment, if no other is given; `albums`: with the names of their folders as tags.
    """
    found = found_pictures(paths)
    files = found.pictures
    texts, tagged = captions_by_name(captions), found.albums if albums else {}
    summary, jobs = IngestSummary(skipped=dict(found.skipped)), []
    with connect(url, api_key) as client, show_progress() as progress:
        sending = progress.add_task("sending", len(files))
        detecting = progress.add_task("finding regions", len(files))
        for receipt in client.upload(described(files, texts, tagged)):
            summary.count_receipt(receipt)
            jobs += [(receipt.job_id, len(receipt.accepted))] if receipt.job_id else []
            sending.advance(len(receipt.accepted) + len(receipt.rejected))
        for job_id, total in jobs:
            before = detecting.completed
            for job in client.follow(job_id, seconds_between=ASK_EVERY_S):
                detecting.update(before + job["done"] + job["failed"])
            detecting.update(before + total)
            summary.count_failures(job["failures"])
        detecting.finish()
    return summary


def found_pictures(paths: Sequence[Path]) -> FoundFiles:
    """The pictures that `find_files` finds. UserError where there are none."""
    found = find_files(paths)
    if not found.pictures:
        skipped = ", ".join(f"{count} {kind}" for kind, count in sorted(found.skipped.items()))
        raise UserError(f"no pictures in {', '.join(map(str, paths))}{skipped and f' (skipped: {skipped})'}")
    return found


def described(
    files: Iterable[tuple[str, Path]], captions: Mapping[str, list[str]], albums: Mapping[Path, str]
) -> "Iterator[Picture]":
    """(name, file) pairs as pictures to upload, with what is known of each."""
    from regard_client import Picture  # noqa: PLC0415 - half a second, which `--help` should not take

    for name, path in files:
        tags = {"album": albums[path]} if path in albums else {}
        yield Picture(path, name, captions=captions.get(name, ()), tags=tags)
