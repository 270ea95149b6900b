"""`regard list`: the stored pictures."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from service.cli.connection import connect
from service.cli.options import AsJson, OnlyIds, Url
from service.cli.picture_filter import OfDate, Since, Until, WithTags, picture_filter
from service.cli.terminal.output import print_ids, print_json, print_note, print_table
from service.cli.terminal.picture_cells import date_cell, name_cell, tags_cell, time_cell

if TYPE_CHECKING:
    from regard_client.answers import ImageListed

LARGEST_PAGE = 1000  # pictures per request

Sort = Annotated[
    Literal["arrival", "latest", "date"],
    typer.Option(
        "--sort", help="arrival: oldest upload first; latest: newest upload first; date: newest photograph first."
    ),
]


def list_pictures(
    tags: WithTags = None,
    date: OfDate = None,
    since: Since = None,
    until: Until = None,
    sort: Sort = "arrival",
    limit: Annotated[int, typer.Option("--limit", min=1, max=LARGEST_PAGE, help="How many at most.")] = 50,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Only pictures after this one: the next page.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All pictures, whatever --limit is.")] = False,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="Deleted pictures that `regard restore` can still bring back.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
    only_ids: OnlyIds = False,
) -> None:
    """List the pictures of a server: dates, tags, states."""
    condition = picture_filter(tags, date, since, until)
    limit = LARGEST_PAGE if everything else limit
    with connect(url) as client:
        answer = client.images_page(after=after, limit=limit, sort=sort, filter=condition, deleted=deleted)
        while everything and answer["next"] is not None:
            page = client.images_page(after=answer["next"], limit=limit, sort=sort, filter=condition, deleted=deleted)
            answer = {**answer, "images": [*answer["images"], *page["images"]], "next": page["next"]}
    if as_json:
        print_json(answer)
        return
    if only_ids:
        print_ids(answer["images"])
    elif not answer["images"]:
        none = "no deleted pictures can be brought back" if deleted else "no pictures"
        print(none if condition is None and after is None else "no pictures match")
    else:
        print_pictures(answer["images"], deleted)
    if answer["next"] is not None:
        total = answer["total"]
        shown = "" if total is None else f" ({len(answer['images'])} of {total} pictures are shown)"
        print_note(f"there are more: add --after {answer['next']}, or --all{shown}")


def print_pictures(images: "list[ImageListed]", deleted: bool) -> None:
    """Print a table of pictures. `deleted`: with times of deletion instead of states."""
    rows = [
        [
            one["image_id"],
            name_cell(one["filename"]),
            date_cell(one["taken_at"]),
            tags_cell(one["tags"]),
            time_cell(one.get("deleted_at")) if deleted else one["state"],
        ]
        for one in images
    ]
    print_table("id", "name", "date", "tags", "deleted" if deleted else "state", rows=rows)
