"""`regard jobs`: ingestions and their progress."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connection import connect
from service.cli.options import AsJson, Url
from service.cli.terminal.output import print_json, print_note, print_table
from service.cli.terminal.picture_cells import time_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regard_client import Client
    from regard_client.answers import JobListed

JOBS_A_PAGE = 100


def jobs(
    job_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of jobs; the latest ones if not given.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many of the latest at most.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of ingestions.

    Of the latest ones, or of those named, with the pictures that were set aside and why.
    """
    with connect(url) as client:
        if not job_ids:
            print_jobs(list(islice(all_jobs(client, min(limit, JOBS_A_PAGE)), limit)), as_json)
            return
        named = [client.job(job_id) for job_id in job_ids]
    print_jobs(named, as_json)
    if not as_json:
        for job in named:
            for failure in job["failures"]:
                print_note(f"set aside: {failure['filename']}: {failure['reason']}")


def all_jobs(client: "Client", page_size: int) -> "Iterator[JobListed]":
    """The jobs, the latest first, fetched page by page."""
    page = client.jobs(page_size)
    yield from page["jobs"]
    while after := page.get("next"):
        page = client.jobs(page_size, after=after)
        yield from page["jobs"]


def print_jobs(listed: Sequence[Mapping[str, object]], as_json: bool) -> None:
    """Print jobs from an answer of the service."""
    if as_json:
        print_json({"jobs": listed})
        return
    if not listed:
        print("nothing was taken in yet")
        return
    columns = [name for name in ("job_id", "created_at", "state", "total", "done", "failed") if name in listed[0]]
    rows = [[job_cell(name, str(job[name])) for name in columns] for job in listed]
    print_table(*(name.replace("_", " ") for name in columns), rows=rows)


def job_cell(column: str, value: str) -> str:
    """A value of a job as a table cell."""
    return time_cell(value) if column == "created_at" else value
