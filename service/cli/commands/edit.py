"""`regard edit`: changes of the descriptions of stored pictures."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.connection import connect
from service.cli.given_ids import each_picture, ids_given, print_each
from service.cli.options import AsJson, ImageIds, Url
from service.cli.picture_filter import number_in
from service.cli.terminal.picture_cells import date_cell, tags_cell
from service.dates import from_numbers

if TYPE_CHECKING:
    from regard_client.answers import ImageListed

Captions = Annotated[
    list[str] | None, typer.Option("--caption", help="A caption, which replaces all existing ones; repeatable.")
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="NAME=VALUE to set, NAME= to remove; repeatable.")]
NoCaptions = Annotated[bool, typer.Option("--no-captions", help="Remove all captions.")]
NoTags = Annotated[bool, typer.Option("--no-tags", help="Remove all tags.")]
TakenAt = Annotated[
    str | None,
    typer.Option(
        "--date",
        "--taken-at",
        help="When it was taken: 2024-05-06T07:08:09+02:00, 2024-05-06, 2024-05 or 2024 (their first day); empty for"
        " none.",
    ),
]
Name = Annotated[str | None, typer.Option("--name", help="The file name to show.")]


def edit(
    image_ids: ImageIds,
    captions: Captions = None,
    no_captions: NoCaptions = False,
    tags: Tags = None,
    no_tags: NoTags = False,
    taken_at: TakenAt = None,
    name: Name = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change captions, tags, date or name of pictures. Fields without an option stay as they are."""
    if no_captions and captions:
        raise typer.BadParameter("--caption sets captions and --no-captions removes them: give one of them")
    if no_tags and tags:
        raise typer.BadParameter("--tag sets tags and --no-tags removes them: give one of them")
    changes: dict[str, Any] = {}
    if captions or no_captions:
        changes["captions"] = captions or None
    if tags or no_tags:
        changes["tags"] = dict(map(read_tag, tags)) if tags else None
    if taken_at is not None:
        changes["taken_at"] = from_numbers(taken_at) or None
    if name is not None:
        changes["filename"] = name
    if not changes:
        raise typer.BadParameter("nothing to change: give --caption, --no-captions, --tag, --no-tags, --date or --name")
    with connect(url) as client:
        changed = (image for _, image in each_picture(ids_given(image_ids), lambda one: client.edit(one, **changes)))
        print_each(changed, changed_line, as_json)


def changed_line(image: "ImageListed") -> str:
    """One line with the new description of a picture: captions, tags and date."""
    captions, tags = "; ".join(image["captions"]) or "no captions", tags_cell(image["tags"]) or "no tags"
    taken_at = date_cell(image["taken_at"]) or "no date"
    return f"{image['image_id']} {image['filename']}: {captions}; {tags}; {taken_at}"


def read_tag(text: str) -> tuple[str, str | int | float | None]:
    """The name and value of NAME=VALUE: a number if it is written as one, None if empty. typer.BadParameter for other
    texts."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"--tag takes NAME=VALUE, or NAME= to remove a tag, not {text!r}")
    if name.endswith((">", "<")):
        raise typer.BadParameter(f"{text!r} is a range, for `regard list --tag`; a tag is set by NAME=VALUE")
    if not value:
        return name, None
    number = number_in(value)
    return name, value if number is None else number
