"""`regard similar`."""

import hashlib
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

if TYPE_CHECKING:
    from regard_client.answers import SimilarAnswer
    from regard_client.options import SearchOptions

MOST_RESULTS = 100


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
    asked = k if captions else min(k + 1, MOST_RESULTS)  # one more, in the place of the picture itself
    wanted: SearchOptions = {
        "k": asked,
        "shortlist": max(asked, shortlist),
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
        answer = client.search_similar(picture, **wanted)
        leave_out(answer, stored_id(picture), k)
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


def stored_id(picture: Path) -> str:
    """The id that a file has once it is stored."""
    with picture.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def leave_out(answer: "SimilarAnswer", image_id: str, k: int) -> None:
    """Take one picture out of an answer; the best `k` of the others stay in their order, ranked anew."""
    others = [hit for hit in answer["results"] if hit["image_id"] != image_id]
    best = sorted(others, key=lambda hit: -(hit["score"] or 0))[:k]
    answer["k"] = k
    answer["results"] = [hit for hit in others if hit in best]
    for rank, hit in enumerate(answer["results"], 1):
        hit["rank"] = rank
