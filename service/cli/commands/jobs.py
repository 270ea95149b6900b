"""`regard jobs`: ingestions and their progress."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from service.cli.connection import connect
from service.cli.options import AsJson, Url
from service.cli.terminal.output import print_json, print_note, print_table
from service.cli.terminal.picture_cells import time_cell


def jobs(
    job_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of jobs; the latest ones if not given.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="How many of the latest at most.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of ingestions.

    Of the latest ones, or of those named, with the pictures that were set aside and why.
    """
    with connect(url) as client:
        if not job_ids:
            print_jobs(client.jobs(limit)["jobs"], as_json)
            return
        named = [client.job(job_id) for job_id in job_ids]
    print_jobs(named, as_json)
    if not as_json:
        for job in named:
            for failure in job["failures"]:
                print_note(f"set aside: {failure['filename']}: {failure['reason']}")


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
