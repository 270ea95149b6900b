"""Picture files sent to a service, and the outcome."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from service.cli.connection import connect
from service.cli.ingesting.descriptions import descriptions_by_name, note_unmatched, supported_descriptions
from service.cli.ingesting.sidecars import Describe, describer
from service.cli.ingesting.summary import ABOUT_LINKS, IngestSummary, skips_links
from service.cli.picture_files import FoundFiles, find_files
from service.cli.terminal.output import Progress, print_note, show_progress
from service.errors import UserError

if TYPE_CHECKING:
    from regard_client import Client, Picture, Receipt
    from regard_client.answers import JobAnswer

ASK_EVERY_S = 0.2  # interval for asking for the state of a job
STANDSTILL_S = 20.0  # without progress, after which the service is asked why it is not ready
INTERRUPTED = 130  # the exit status of programs that end by Ctrl-C


def send_files(
    url: str | None,
    paths: Sequence[Path],
    captions: Path | None = None,
    albums: bool = True,
    sidecars: bool = True,
) -> IngestSummary:
    """Send pictures with progress bars, and wait until they are searchable. UserError if that fails.

    `albums`: tag pictures with the names of their folders. `sidecars`: describe them by files beside them.
    """
    found = found_pictures(paths, sidecars)
    files = found.pictures
    given = descriptions_by_name(captions)
    note_unmatched(given, {name for name, _ in files})
    summary = IngestSummary(skipped=dict(found.skipped))
    with connect(url) as client:
        descriptions = supported_descriptions(given, client.models)
        describe = describer(found, descriptions, albums, summary)
        receipts = upload_receipts(client, pictures_to_upload(files, describe))
        take_receipts(client, receipts, len(files), summary)
    return summary


def take_receipts(client: "Client", receipts: "Iterable[Receipt]", num_files: int, summary: IngestSummary) -> None:
    """Count the receipts of at most `num_files` files, and wait until their pictures are searchable, with progress
    bars."""
    jobs = list[str]()
    with noting_interruption(summary, num_files), show_progress() as progress:
        sending = progress.add_task("sending", num_files)
        for receipt in receipts:
            summary.count_receipt(receipt)
            jobs += [receipt.job_id] if receipt.job_id else []
            sending.advance(len(receipt.accepted) + len(receipt.rejected))
        sending.finish()  # of files that are left out when they are read
        wait_for_regions(client, jobs, progress, summary)


def wait_for_regions(client: "Client", jobs: Sequence[str], progress: Progress, summary: IngestSummary) -> None:
    """Wait for jobs, with a progress bar over the pictures that are still pending."""
    states = {job_id: client.job(job_id) for job_id in jobs}
    settled_before = num_settled(states.values())
    pending = sum(job["total"] for job in states.values()) - settled_before
    detecting = progress.add_task("finding regions", pending) if pending else None

    def update_bar() -> None:
        if detecting is not None:
            detecting.update(num_settled(states.values()) - settled_before)

    def ask_for_all() -> bool:
        """Update the states of all jobs; True if a picture was settled meanwhile.

        After a worker was killed, the pictures that it was at come last: the first job may end after all others.
        """
        before = num_settled(states.values())
        for job_id, job in states.items():
            if job["state"] != "done":
                states[job_id] = client.job(job_id)
        update_bar()
        return num_settled(states.values()) > before

    for job_id in states:
        for job in job_states(client, job_id, ask_for_all):
            states[job_id] = job
            update_bar()
        summary.count_failures(states[job_id]["failures"])


def num_settled(jobs: "Iterable[JobAnswer]") -> int:
    """The number of pictures of these jobs that are searchable or set aside."""
    return sum(job["done"] + job["failed"] for job in jobs)


def job_states(
    client: "Client", job_id: str, others_go_on: Callable[[], bool] = lambda: False
) -> "Iterator[JobAnswer]":
    """The states of a job until it is done. Prints why the service is not ready while there is no progress, of other
    jobs either."""
    from regard_client import JobUnfinished

    last, printed = None, ""
    while True:
        before = last
        try:
            for last in client.follow(job_id, seconds_between=ASK_EVERY_S, timeout_s=STANDSTILL_S):
                yield last
            return
        except JobUnfinished:
            if last == before and (reason := "" if others_go_on() else reason_not_ready(client)) != printed:
                print_note(f"the service waits: {reason}" if reason else "the service goes on")
                printed = reason


def reason_not_ready(client: "Client") -> str:
    """The reason that the service gives for not being ready; "" if it is ready."""
    from regard_client import RequestRefused

    try:
        client.ready()
    except RequestRefused as refused:
        return refused.reason
    return ""


def upload_receipts(client: "Client", pictures: "Iterable[Picture]", restore: bool = True) -> "Iterator[Receipt]":
    """The receipts of pictures, sent in batches. Without `restore`, deleted pictures stay deleted, and are rejected.

    If a file of a batch cannot be read, or one of its descriptions is refused, the rest of the batch is sent one by
    one, and pictures that fail again are rejected.
    """
    from regard_client import RequestRefused, upload_batches
    from regard_client.pictures import rejected_alone

    for batch in upload_batches(pictures):
        left = batch
        try:
            # Several for a batch that was too large, in its order.
            for receipt in client.upload(batch, restore=restore):
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
            yield rejected_alone(left[0].name, problem, retryable)
        else:
            for one in left:
                yield from upload_receipts(client, [one], restore)


@contextmanager
def noting_interruption(summary: IngestSummary, total: int) -> Iterator[None]:
    """Prints which of `total` files are stored and how to continue, if Ctrl-C or an error ends the block.

    After Ctrl-C it exits; errors are raised again.
    """
    from regard_client import RegardError

    def note(when: str) -> None:
        stored = summary.accepted + summary.duplicates
        print_note(f"\nstopped: {stored} pictures are stored and will be found {when}; `regard jobs` says how far")
        if left := total - stored - len(summary.rejected) - summary.left_deleted:
            print_note(f"{left} files were not sent yet: the same command goes on with them")

    try:
        yield
    except KeyboardInterrupt:
        note("without you")
        raise typer.Exit(INTERRUPTED) from None
    except (RegardError, OSError) as fault:
        if summary.accepted or summary.duplicates:
            note("without you" if isinstance(fault, OSError) else "when the service goes on")
        raise


def found_pictures(paths: Sequence[Path], sidecars: bool) -> FoundFiles:
    """The result of `find_files`. UserError if there are no pictures."""
    found = find_files(paths, sidecars)
    if not found.pictures:
        skipped = ", ".join(f"{count} {kind}" for kind, count in sorted(found.skipped.items()))
        advice = f"; {ABOUT_LINKS}" if skips_links(found.skipped) else ""
        raise UserError(f"no pictures in {', '.join(map(str, paths))}{skipped and f' (skipped: {skipped})'}{advice}")
    return found


def pictures_to_upload(files: Iterable[tuple[str, Path]], describe: Describe) -> "Iterator[Picture]":
    """Pictures to upload from files given as (name, path)."""
    from regard_client import Picture

    for name, path in files:
        yield Picture(path, name, **describe(name, path).model_dump())
