"""`regard search`."""

from typing import Annotated, Literal

import typer

from service.cli.connection import connect
from service.cli.options import (
    AsJson,
    GroupNearDuplicates,
    MinProbability,
    MinScore,
    Model,
    NumResults,
    OnlyIds,
    ResultOrder,
    ShortlistLength,
    Thumbnails,
    Url,
)
from service.cli.picture_filter import OfDate, Since, Until, WithTags, picture_filter
from service.cli.terminal.hits import (
    print_loading,
    print_picture_hits,
    print_readings,
    thumbnails_of,
    without_misleading_probabilities,
)
from service.cli.terminal.output import print_ids, print_json

SEARCH_EPILOG = """What is not to be seen has a minus sign, in quotation marks: regard search "dog -snow". Options come
before a query that begins with one: regard search -k 5 -- "-snow"."""


def search(
    words: Annotated[list[str], typer.Argument(metavar="QUERY", help="What the pictures should show, in words.")],
    k: NumResults = 10,
    shortlist: ShortlistLength = 100,
    model: Model = None,
    tags: WithTags = None,
    date: OfDate = None,
    since: Since = None,
    until: Until = None,
    sort: ResultOrder = "relevance",
    min_score: MinScore = None,
    min_probability: MinProbability = None,
    match: Annotated[
        Literal["pictures", "text", "both"],
        typer.Option(help="Look at pictures, at text (file names, captions, tags, dates), or at both."),
    ] = "both",
    group_near_duplicates: GroupNearDuplicates = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show which region answered which word.")] = False,
    thumbnails: Thumbnails = True,
    url: Url = None,
    as_json: AsJson = False,
    only_ids: OnlyIds = False,
) -> None:
    """Find pictures for a sentence."""
    condition = picture_filter(tags, date, since, until)
    with connect(url) as client:
        answer = client.search_text(
            " ".join(words),
            k=k,
            shortlist=max(k, shortlist),
            model=model,
            filter=condition,
            sort=sort,
            min_score=min_score,
            min_probability=min_probability,
            match=match,
            group_near_duplicates=group_near_duplicates,
            explain=explain,
        )
        small = thumbnails_of(client, answer["results"]) if thumbnails and not (as_json or only_ids) else {}
    if as_json:
        print_json(answer)
        return
    print_loading(answer)
    if only_ids:
        print_ids(answer["results"])
        return
    if answer.get("matched") is False and answer["results"]:
        print("nothing matches well; these come nearest:")
    hits = without_misleading_probabilities(answer)
    print_picture_hits(hits, answer["left_out"], small, filtered=condition is not None)
    print_readings(answer)
