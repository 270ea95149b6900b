"""Ask a running server: search, similar, models."""

from pathlib import Path
from typing import Annotated, Any

import typer

from service.api.schemas.results import CaptionHit, PictureHit
from service.cli.output import (
    LOCAL,
    AsJson,
    Client,
    Count,
    Model,
    Shortlist,
    Url,
    print_json,
    print_table,
)

app = typer.Typer()


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What the pictures should show, in words.")],
    k: Count = 10,
    shortlist: Shortlist = 100,
    model: Model = None,
    min_score: Annotated[float | None, typer.Option(help="Leave out results that score lower.")] = None,
    min_probability: Annotated[
        float | None, typer.Option(min=0, max=1, help="Leave out results that are less probable.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say which region answered which word.")] = False,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Find pictures for a sentence."""
    with Client(url) as client:
        answer = client.search_text(
            query,
            k=k,
            shortlist=max(k, shortlist),
            model=model,
            min_score=min_score,
            min_probability=min_probability,
            explain=explain,
        )
    if as_json:
        print_json(answer)
        return
    print_hits(answer.results, url, answer.left_out)
    if answer.unknown_words:
        print(f"unknown words: {', '.join(answer.unknown_words)}")


@app.command()
def similar(
    picture: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A picture file.")],
    k: Count = 10,
    captions: Annotated[bool, typer.Option("--captions", help="Find captions for it instead of pictures.")] = False,
    model: Model = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Find pictures like a picture, or captions for it."""
    target = "captions" if captions else "images"
    with Client(url) as client:
        answer = client.search_image(picture, target=target, k=k, shortlist=max(k, 100), model=model)
    if as_json:
        print_json(answer)
        return
    print_hits([hit for hit in answer.results if isinstance(hit, PictureHit)], url)
    found = [hit for hit in answer.results if isinstance(hit, CaptionHit)]
    if found:
        print_table(
            "rank",
            "score",
            "caption",
            rows=[[str(hit.rank), f"{hit.score:.3f}", likely(hit) + hit.text] for hit in found],
        )


@app.command()
def models(url: Url = LOCAL, as_json: AsJson = False) -> None:
    """List the models of a server. Says how much each can search."""
    with Client(url) as client:
        answer = client.models()
    if as_json:
        print_json(answer)
        return
    rows = [
        [
            f"{one.name} (default)" if one.default else one.name,
            one.state,
            str(one.pictures),
            str(one.missing_pictures),
            one.digest,
        ]
        for one in answer.models
    ]
    print_table("model", "state", "pictures", "missing", "digest", rows=rows)


def print_hits(hits: list[PictureHit], url: str, left_out: int = 0) -> None:
    """Pictures found, and what each word looked at where that was asked for."""
    if not hits:
        print(f"nothing matches well enough: {left_out} candidates left out" if left_out else "nothing found")
    for hit in hits:
        place = hit.image_id if hit.url is None else f"{url.rstrip('/')}{hit.url}"
        print(f"{hit.rank:3}  {hit.score:7.3f}  {likely(hit)}{hit.filename}  {place}")
        for line in reasons(hit.explanation.model_dump() if hit.explanation else {}):
            print(f"       {line}")


def likely(hit: PictureHit | CaptionHit) -> str:
    """How probable a result is, where its model can say."""
    return "" if hit.probability is None else f"{hit.probability:4.0%} likely  "


def reasons(explanation: dict[str, Any]) -> list[str]:
    """One line a word that the sentence contained: its share of the score, and the region it looked at most."""
    lines = []
    for number, word in enumerate(explanation.get("words", ())):
        if word["special"]:
            continue
        line = f"  {word['text']}"
        if explanation["contributions"] is not None:
            line += f" {explanation['contributions'][number]:+.3f}"
        if explanation["attention"] is not None:
            attention = explanation["attention"][number]
            region = explanation["regions"][attention.index(max(attention))]
            line += f" {region['label']}"
            if region["box"] is not None:
                line += f" [{', '.join(f'{edge:.0f}' for edge in region['box'])}]"
        lines.append(line)
    return lines
