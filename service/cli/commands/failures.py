"""`regard failures`: pictures that were set aside."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.connection import connect
from service.cli.ingesting.sending import ASK_EVERY_S
from service.cli.options import AsJson, Url
from service.cli.terminal.output import print_json, print_note, print_table, show_progress
from service.cli.terminal.picture_cells import name_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regard_client import Client
    from regard_client.answers import FailureAnswer


def failures(
    retry: Annotated[
        list[str] | None, typer.Option("--retry", metavar="ID", help="Try this picture again; repeatable.")
    ] = None,
    retry_all: Annotated[bool, typer.Option("--retry-all", help="Try all of them again.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List pictures that were set aside, or try them again.

    Lists the reasons, too. A retry waits for the outcome; the status is 1 if a picture was set aside again.
    """
    with connect(url) as client:
        listed = list(all_failures(client))
        image_ids = [one["image_id"] for one in listed] if retry_all else retry or []
        outcomes = retry_pictures(client, image_ids)
    if retry_all or retry:
        print_outcomes(outcomes, as_json)
    elif as_json:
        print_json({"failures": listed})
    elif not listed:
        print("no picture was set aside")
    else:
        rows = [[one["image_id"], name_cell(one["filename"]), str(one["attempts"]), one["reason"]] for one in listed]
        print_table("id", "name", "attempts", "reason", rows=rows)
        print_note("`regard failures --retry ID` tries one again, --retry-all all of them")


def all_failures(client: "Client") -> "Iterator[FailureAnswer]":
    """The pictures that were set aside, fetched page by page."""
    page = client.failures()
    yield from page["failures"]
    while after := page.get("next"):
        page = client.failures(after=after)
        yield from page["failures"]


def retry_pictures(client: "Client", image_ids: list[str]) -> list[dict[str, Any]]:
    """Try pictures again and wait. Returns the outcome of each; its reason is None if the picture can be found now."""
    from regard_client import RequestRefused

    outcomes: dict[str, str | None] = {}
    jobs: dict[str, str] = {}
    with show_progress() as progress:
        task = progress.add_task("trying again", len(image_ids)) if image_ids else None
        for image_id in dict.fromkeys(image_ids):
            try:
                jobs[image_id] = client.retry(image_id)["job_id"]
            except RequestRefused as refused:
                outcomes[image_id] = str(refused)
        for image_id, job_id in jobs.items():
            job = client.wait(job_id, seconds_between=ASK_EVERY_S)
            outcomes[image_id] = next((one["reason"] for one in job["failures"]), None)
            assert task is not None
            task.advance()
    return [{"image_id": image_id, "reason": reason} for image_id, reason in outcomes.items()]


def print_outcomes(outcomes: list[dict[str, Any]], as_json: bool) -> None:
    """Print the outcome of each picture; exit with 1 if one was set aside again."""
    if as_json:
        print_json({"retried": outcomes})
    elif not outcomes:
        print("no picture was set aside")
    else:
        rows = [[one["image_id"], one["reason"] or "can be found now"] for one in outcomes]
        print_table("id", "outcome", rows=rows)
    if any(one["reason"] for one in outcomes):
        raise typer.Exit(1)
