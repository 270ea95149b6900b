"""`regard similar`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from service.cli.connection import connect
from service.cli.given_ids import IMAGE_ID
from service.cli.options import (
    AsJson,
    GroupNearDuplicates,
    MinScore,
    Model,
    NumResults,
    ResultOrder,
    ShortlistLength,
    Thumbnails,
    Url,
)
from service.cli.picture_filter import OfDate, Since, Until, WithTags, picture_filter
from service.cli.terminal.hits import (
    print_caption_hits,
    print_loading,
    print_picture_hits,
    print_readings,
    thumbnails_of,
)
from service.cli.terminal.output import print_json
from service.storage.originals import image_id_of_file

if TYPE_CHECKING:
    from regard_client import Client
    from regard_client.answers import SimilarAnswer
    from regard_client.options import SearchOptions, SimilarSearchOptions

NOT_FOUND = "not-found"


def similar(
    picture: Annotated[str, typer.Argument(help="A picture file, or the id of a stored picture.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[QUERY]", help="What the pictures should also show, in words.")
    ] = None,
    k: NumResults = 10,
    shortlist: ShortlistLength = 100,
    captions: Annotated[bool, typer.Option("--captions", help="Find captions for it instead of pictures.")] = False,
    model: Model = None,
    tags: WithTags = None,
    date: OfDate = None,
    since: Since = None,
    until: Until = None,
    sort: ResultOrder = "relevance",
    min_score: MinScore = None,
    min_probability: Annotated[
        float | None, typer.Option(min=0, max=1, help="With --captions: leave out less probable ones.")
    ] = None,
    group_near_duplicates: GroupNearDuplicates = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="With --captions: show which region answered which word.")
    ] = False,
    thumbnails: Thumbnails = True,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Find pictures like a picture, or captions for it. The picture itself is left out of the results.

    With words after it: pictures like it that also show something ("in the snow").
    """
    asked = asked_picture(picture)
    wanted: SearchOptions = {
        "k": k,
        "shortlist": max(k, shortlist),
        "model": model,
        "filter": picture_filter(tags, date, since, until),
        "sort": sort,
        "min_score": min_score,
        "min_probability": min_probability,
        "group_near_duplicates": group_near_duplicates,
        "explain": explain,
    }
    query = " ".join(words or [])
    if captions:
        if query:
            raise typer.BadParameter("captions are found by the picture alone: leave out the words, or --captions")
        print_captions(asked, url, as_json, **wanted)
        return
    with connect(url) as client:
        answer = search_like(client, asked, {**wanted, "query": query or None})
        small = thumbnails_of(client, answer["results"]) if thumbnails and not as_json else {}
    if as_json:
        print_json(answer)
    else:
        print_loading(answer)
        print_picture_hits(answer["results"], answer["left_out"], small, filtered=wanted["filter"] is not None)
        print_readings(answer)


def asked_picture(written: str) -> Path | str:
    """The path of an existing file, or else the id of a stored picture. BadParameter for other texts."""
    path = Path(written)
    if path.is_file():
        return path
    if IMAGE_ID.fullmatch(written):
        return written
    what = "is a folder" if path.is_dir() else "is a device or a pipe" if path.exists() else "does not exist"
    raise typer.BadParameter(f"the file {written} {what}, and this is not the id of a stored picture")


def print_captions(asked: Path | str, url: str | None, as_json: bool, **options: "Unpack[SearchOptions]") -> None:
    """Print the captions found for a file or a stored picture, or why there are none."""
    with connect(url) as client:
        if isinstance(asked, Path):
            answer = client.search_captions(asked, **options)
        else:
            answer = client.search_captions(image_id=asked, **options)
    if as_json:
        print_json(answer)
        return
    print_loading(answer)
    if note := answer.get("note"):
        print(note)
        return
    if answer.get("matched") is False and answer["results"]:
        print("nothing matches well; these come nearest:")
    print_caption_hits(answer["results"], answer["left_out"], filtered=options["filter"] is not None)


def search_like(client: "Client", asked: Path | str, wanted: "SimilarSearchOptions") -> "SimilarAnswer":
    """Pictures like a stored one, or like a file. A file that is stored is searched by its id, so that the service
    leaves it out; otherwise it is uploaded."""
    if isinstance(asked, str):
        return client.search_similar(image_id=asked, **wanted)
    from regard_client import RequestRefused

    try:
        return client.search_similar(image_id=image_id_of_file(asked), **wanted)
    except RequestRefused as refused:
        if refused.kind != NOT_FOUND:
            raise
    return client.search_similar(asked, **wanted)
