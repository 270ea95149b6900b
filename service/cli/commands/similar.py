"""`regard similar`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from service.cli.connection import connect
from service.cli.hits import print_caption_hits, print_loading, print_picture_hits, thumbnails_of
from service.cli.options import (
    AsJson,
    GroupNearDuplicates,
    MinScore,
    Model,
    NumResults,
    PictureFile,
    ResultOrder,
    ShortlistLength,
    Thumbnails,
    Url,
)
from service.cli.output import print_json
from service.cli.picture_filter import OfDate, Since, Until, WithTags, picture_filter
from service.storage.originals import image_id_of_file

if TYPE_CHECKING:
    from regard_client import Client
    from regard_client.answers import SimilarAnswer
    from regard_client.options import SearchOptions

NOT_FOUND = "not-found"


def similar(
    picture: PictureFile,
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
        float | None, typer.Option(min=0, max=1, help="With --captions: leave out those that are less probable.")
    ] = None,
    group_near_duplicates: GroupNearDuplicates = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="With --captions: say which region answered which word.")
    ] = False,
    thumbnails: Thumbnails = True,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Find pictures like a picture, or captions for it. Where it is stored itself, it is left out of these."""
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
    if captions:
        print_captions(picture, url, as_json, **wanted)
        return
    with connect(url) as client:
        answer = search_like(client, picture, wanted)
        small = thumbnails_of(client, answer["results"]) if thumbnails and not as_json else {}
    if as_json:
        print_json(answer)
    else:
        print_loading(answer)
        print_picture_hits(answer["results"], answer["left_out"], small, filtered=wanted["filter"] is not None)


def print_captions(picture: Path, url: str | None, as_json: bool, **options: "Unpack[SearchOptions]") -> None:
    """Print the captions that describe a picture, or why there are none."""
    with connect(url) as client:
        answer = client.search_captions(picture, **options)
    if as_json:
        print_json(answer)
        return
    print_loading(answer)
    if note := answer.get("note"):
        print(note)
        return
    if answer.get("matched") is False and answer["results"]:
        print("nothing matches well; these come nearest:")
    print_caption_hits(answer["results"], answer["left_out"])


def search_like(client: "Client", picture: Path, wanted: "SearchOptions") -> "SimilarAnswer":
    """Pictures like a file: asked by its id where it is stored, so that the service leaves it out, otherwise sent."""
    from regard_client import RequestRefused  # noqa: PLC0415 - half a second, which `--help` should not take

    try:
        return client.search_similar(image_id=image_id_of_file(picture), **wanted)
    except RequestRefused as refused:
        if refused.kind != NOT_FOUND:
            raise
    return client.search_similar(picture, **wanted)
