"""`regard similar`."""

from typing import Annotated

import typer

from service.cli.connection import connect
from service.cli.hits import print_caption_hits, print_picture_hits
from service.cli.options import AsJson, Model, NumResults, PictureFile, Url
from service.cli.output import print_json


def similar(
    picture: PictureFile,
    k: NumResults = 10,
    captions: Annotated[bool, typer.Option("--captions", help="Find captions for it instead of pictures.")] = False,
    model: Model = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Find pictures like a picture, or captions for it."""
    from service.api.schemas.results import CaptionHit, PictureHit  # noqa: PLC0415 - as the client

    target = "captions" if captions else "images"
    with connect(url) as client:
        answer = client.search_image(picture, target=target, k=k, shortlist=max(k, 100), model=model)
    if as_json:
        print_json(answer)
        return
    if captions:
        print_caption_hits([hit for hit in answer.results if isinstance(hit, CaptionHit)])
    else:
        print_picture_hits([hit for hit in answer.results if isinstance(hit, PictureHit)], client.url)
