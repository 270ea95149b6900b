"""Picture files sent to a service, and what becomes of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from pydantic import SecretStr

from service.cli.connection import connect
from service.cli.ingesting.descriptions import (
    NO_DESCRIPTION,
    Descriptions,
    album_tag,
    descriptions_by_name,
    tell_unmatched,
    understood,
)
from service.cli.ingesting.summary import IngestSummary
from service.cli.picture_files import FoundFiles, find_files
from service.cli.terminal.output import Progress, print_note, show_progress
from service.errors import UserError

if TYPE_CHECKING:
    from regard_client import Client, Picture, Receipt
    from regard_client.answers import JobAnswer, Rejected

ASK_EVERY_S = 0.2  # how far a job is
STANDSTILL_S = 20.0  # after which the service is asked what it waits for
INTERRUPTED = 130  # the status that shells give a program which Ctrl-C ended


def send_files(
    url: str | None,
    paths: Sequence[Path],
    captions: Path | None = None,
    api_key: SecretStr | None = None,
    albums: bool = True,
) -> IngestSummary:
    """Send pictures with progress bars, and wait until they are searchable. Raises UserError where that cannot begin or
    go on.

    With the key of the environment, if no other is given; `albums`: with the names of their folders as tags.
    """
    found = found_pictures(paths)
    files = found.pictures
    texts, tagged = descriptions_by_name(captions), found.albums if albums else {}
    tell_unmatched(texts, {name for name, _ in files})
    summary, jobs = IngestSummary(skipped=dict(found.skipped)), list[str]()
    with connect(url, api_key) as client, told_when_stopped(summary, len(files)), show_progress() as progress:
        said = understood(texts, client.models)
        sending = progress.add_task("sending", len(files))
        for receipt in receipts_of(client, described(files, said, tagged)):
            summary.count_receipt(receipt)
            jobs += [receipt.job_id] if receipt.job_id else []
            sending.advance(len(receipt.accepted) + len(receipt.rejected))
        wait_for_regions(client, jobs, progress, summary)
    return summary


def wait_for_regions(client: "Client", jobs: Sequence[str], progress: Progress, summary: IngestSummary) -> None:
    """Wait for jobs, with a bar of the pictures that are still pending, without those that can be found already."""
    first = [client.job(job_id) for job_id in jobs]
    if pending := sum(job["total"] - job["done"] - job["failed"] for job in first):
        detecting = progress.add_task("finding regions", pending)
    for known in first:
        before = detecting.completed if pending else 0
        for job in followed(client, known["job_id"]):
            if pending:
                detecting.update(before + job["done"] + job["failed"] - known["done"] - known["failed"])
        summary.count_failures(job["failures"])


def followed(client: "Client", job_id: str) -> "Iterator[JobAnswer]":
    """The states of a job until it is done. While it stands still, whatever keeps the service from going on is told."""
    from regard_client import JobUnfinished  # noqa: PLC0415 - half a second, which `--help` should not take

    last, told = None, ""
    while True:
        before = last
        try:
            for last in client.follow(job_id, seconds_between=ASK_EVERY_S, timeout_s=STANDSTILL_S):
                yield last
            return
        except JobUnfinished:
            if last == before and (said := trouble_of(client)) != told:
                print_note(f"the service waits: {said}" if said else "the service goes on")
                told = said


def trouble_of(client: "Client") -> str:
    """The service's words on why it is not ready; "" where it is."""
    from regard_client import RequestRefused  # noqa: PLC0415 - half a second, which `--help` should not take

    try:
        client.ready()
    except RequestRefused as refused:
        return refused.reason
    return ""


def receipts_of(client: "Client", pictures: "Iterable[Picture]") -> "Iterator[Receipt]":
    """The receipts of pictures, sent in batches; what is left of a batch of which a file cannot be read, or that is
    refused for what is said of one of its pictures, is sent one by one, and what fails then is a rejected file."""
    from regard_client import Receipt, RequestRefused, upload_batches  # noqa: PLC0415 - half a second, as above

    for batch in upload_batches(pictures):
        left = batch
        try:
            for receipt in client.upload(batch):  # several of one that was too large, in its order
                left = left[len(receipt.accepted) + len(receipt.rejected) :]
                yield receipt
            continue
        except OSError as fault:  # of a file: a service that cannot be reached is a RegardError
            problem, retryable = f"The file cannot be read: {fault.strerror or fault}.", True
        except RequestRefused as refused:
            if refused.status != HTTPStatus.UNPROCESSABLE_ENTITY:
                raise
            problem, retryable = refused.reason, False
        if len(left) == 1:
            rejected: Rejected = {"filename": left[0].name, "problem": problem, "retryable": retryable}
            yield Receipt(job_id=None, accepted=[], rejected=[rejected])
        else:
            for one in left:
                yield from receipts_of(client, [one])


@contextmanager
def told_when_stopped(summary: IngestSummary, total: int) -> Iterator[None]:
    """Ends the program at Ctrl-C, and says before what of `total` files is safe and how it goes on.

    It says so, too, where the service refuses or cannot be reached any more, or a file cannot be read, which others
    make a UserError of.
    """
    from regard_client import RegardError  # noqa: PLC0415 - half a second, which `--help` should not take

    def tell(found: str) -> None:
        stored = summary.accepted + summary.duplicates
        print_note(f"\nstopped: {stored} pictures are stored and will be found {found}; `regard jobs` says how far")
        if left := total - stored - len(summary.rejected):
            print_note(f"{left} files were not sent yet: the same command goes on with them")

    try:
        yield
    except KeyboardInterrupt:
        tell("without you")
        raise typer.Exit(INTERRUPTED) from None
    except (RegardError, OSError) as fault:
        if summary.accepted or summary.duplicates:
            tell("without you" if isinstance(fault, OSError) else "when the service goes on")
        raise


def found_pictures(paths: Sequence[Path]) -> FoundFiles:
    """The pictures that `find_files` finds. UserError where there are none."""
    found = find_files(paths)
    if not found.pictures:
        skipped = ", ".join(f"{count} {kind}" for kind, count in sorted(found.skipped.items()))
        raise UserError(f"no pictures in {', '.join(map(str, paths))}{skipped and f' (skipped: {skipped})'}")
    return found


def described(files: Iterable[tuple[str, Path]], said: Descriptions, albums: Mapping[Path, str]) -> "Iterator[Picture]":
    """(name, file) pairs as pictures to upload, with what is known of each."""
    from regard_client import Picture  # noqa: PLC0415 - half a second, which `--help` should not take

    for name, path in files:
        known, default = said.get(name, NO_DESCRIPTION), album_tag(albums.get(path))
        yield Picture(
            path,
            name,
            captions=known.captions,
            tags=known.tags,
            default_tags=default,
            taken_at=known.taken_at,
            decided=known.decided,
        )
