"""`regard edit`: what is known about stored pictures."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.connection import connect
from service.cli.given_ids import each_picture, ids_given, print_each
from service.cli.options import AsJson, ImageIds, Url
from service.cli.picture_filter import number_in
from service.cli.terminal.picture_cells import date_cell, tags_cell

if TYPE_CHECKING:
    from regard_client.answers import ImageListed

Captions = Annotated[
    list[str] | None, typer.Option("--caption", help="A caption, in the place of all there are; again for more.")
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="NAME=VALUE to set, NAME= to take away; again for more.")]
NoCaptions = Annotated[bool, typer.Option("--no-captions", help="Take all captions away.")]
NoTags = Annotated[bool, typer.Option("--no-tags", help="Take all tags away.")]
TakenAt = Annotated[
    str | None,
    typer.Option(
        "--date",
        "--taken-at",
        help="When it was taken: 2024 or 2024-05, which mean their first day, 2024-05-06 or 2024-05-06T07:08:09+02:00;"
        " empty for none.",
    ),
]
Name = Annotated[str | None, typer.Option("--name", help="The file name that is shown.")]


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
    """Change captions, tags, date or name of pictures. What is not named stays as it is."""
    if no_captions and captions:
        raise typer.BadParameter("--caption sets captions and --no-captions takes them away: name one of them")
    if no_tags and tags:
        raise typer.BadParameter("--tag sets tags and --no-tags takes them away: name one of them")
    changes: dict[str, Any] = {}
    if captions or no_captions:
        changes["captions"] = captions or None
    if tags or no_tags:
        changes["tags"] = dict(map(read_tag, tags)) if tags else None
    if taken_at is not None:
        changes["taken_at"] = taken_at or None
    if name is not None:
        changes["filename"] = name
    if not changes:
        raise typer.BadParameter("nothing to change: name --caption, --no-captions, --tag, --no-tags, --date or --name")
    with connect(url) as client:
        changed = (image for _, image in each_picture(ids_given(image_ids), lambda one: client.edit(one, **changes)))
        print_each(changed, changed_line, as_json)


def changed_line(image: "ImageListed") -> str:
    """One line of all that is known of a picture now: captions, tags and date."""
    captions, tags = "; ".join(image["captions"]) or "no captions", tags_cell(image["tags"]) or "no tags"
    taken_at = date_cell(image["taken_at"]) or "no date"
    return f"{image['image_id']} {image['filename']}: {captions}; {tags}; {taken_at}"


def read_tag(text: str) -> tuple[str, str | int | float | None]:
    """NAME=VALUE as a tag, a value that is a number as a number; None where the value is empty. typer.BadParameter."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"--tag takes NAME=VALUE, or NAME= to take a tag away, not {text!r}")
    if name.endswith((">", "<")):
        raise typer.BadParameter(f"{text!r} asks for a range, as `regard list --tag` does; a tag is set by NAME=VALUE")
    if not value:
        return name, None
    number = number_in(value)
    return name, value if number is None else number
