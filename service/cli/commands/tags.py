"""`regard tags`: tags in use."""

from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connection import connect
from service.cli.options import AsJson, Url
from service.cli.terminal.output import print_json, print_note, print_table, shortened

if TYPE_CHECKING:
    from regard_client.answers import TagListed

LONGEST_VALUE = 30


def tags(
    part: Annotated[str, typer.Argument(metavar="[PART]", help="Only tags whose name or values contain this.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many names at most.")] = 50,
    values: Annotated[int, typer.Option("--values", min=1, max=100, help="How many values per name at most.")] = 8,
    after: Annotated[str, typer.Option("--after", metavar="NAME", help="Only names after this: the next page.")] = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the tags of a server.

    With their most frequent values, and how many pictures have them.
    """
    with connect(url) as client:
        answer = client.tags_page(part, after=after, limit=limit, values=values)
    if as_json:
        print_json(answer)
        return
    if not answer["tags"]:
        print(f"no tag contains {part!r}" if part else "no tags")
        return
    rows = [[tag["name"], str(tag["pictures"]), values_cell(tag)] for tag in answer["tags"]]
    print_table("tag", "pictures", "values (pictures)", rows=rows)
    if answer["next"] is not None:
        print_note(f"there are more: add --after {answer['next']!r}, or a part of a name or value")


def values_cell(tag: "TagListed") -> str:
    """The values of a tag with their numbers of pictures, and the number of other values."""
    named = [f"{shortened(str(one['value']), LONGEST_VALUE)} ({one['pictures']})" for one in tag["values"]]
    left = tag["distinct_values"] - len(tag["values"])
    return ", ".join([*named, *([f"and {left} more"] if left else [])])
