"""`regard info`: one stored picture."""

from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connection import connect
from service.cli.given_ids import ids_given
from service.cli.options import AsJson, Url
from service.cli.terminal.output import print_json, print_table, visible
from service.cli.terminal.picture_cells import time_cell

if TYPE_CHECKING:
    from regard_client.answers import Box, ImageInfo


def info(
    image_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a picture, as searches print it; - reads it from a pipe.")
    ],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show everything about a stored picture.

    File, date, captions, tags, regions, and why it was set aside.
    """
    given = ids_given([image_id])
    if len(given) != 1:
        raise typer.BadParameter(f"standard input holds {len(given)} ids: info shows one picture")
    with connect(url) as client:
        found = client.info(given[0])
    if as_json:
        print_json(found)
        return
    for name, value in facts(found, client.url):
        print(f"{name:9} {visible(value)}")
    if found["regions"]:
        print()
        print_table("region", "confidence", "box", rows=[region_cells(region) for region in found["regions"]])


def facts(image: "ImageInfo", url: str) -> list[tuple[str, str]]:
    """The facts about a picture as (short name, text); names may repeat."""
    size = f"{image['width']} x {image['height']} pixels, " if image["width"] is not None else ""
    optional: list[tuple[str, str | None]] = [
        ("id", image["image_id"]),
        ("name", image["filename"]),
        ("state", image["state"]),
        ("file", f"{image['kind']}, {size}{image['num_bytes']} bytes"),
        ("taken", time_cell(image["taken_at"])),
        ("added", time_cell(image["added_at"])),
        *(("caption", caption) for caption in image["captions"]),
        *(("tag", f"{name}={value}") for name, value in image["tags"].items()),
        ("picture", image["url"] and f"{url}{image['url']}"),
        ("failure", image["failure"] and image["failure"]["reason"]),
    ]
    return [(name, value) for name, value in optional if value]


def region_cells(region: "Box") -> list[str]:
    """A region as table cells; box and confidence are empty for imported features without them."""
    box = "" if region["box"] is None else ", ".join(f"{edge:.0f}" for edge in region["box"])
    return [region["label"], "" if region["confidence"] is None else f"{region['confidence']:.2f}", box]
