"""`regard similar`."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connection import connect
from service.cli.hits import print_caption_hits, print_picture_hits
from service.cli.options import AsJson, Model, NumResults, PictureFile, Url
from service.cli.output import print_json
from service.cli.picture_filter import OfDate, Since, Until, WithTags, picture_filter

if TYPE_CHECKING:
    from service.api.schemas.results import ImageAnswer

MOST_RESULTS = 100


def similar(
    picture: PictureFile,
    k: NumResults = 10,
    captions: Annotated[bool, typer.Option("--captions", help="Find captions for it instead of pictures.")] = False,
    model: Model = None,
    tags: WithTags = None,
    date: OfDate = None,
    since: Since = None,
    until: Until = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Find pictures like a picture, or captions for it. Where it is stored itself, it is left out of these."""
    condition = picture_filter(tags, date, since, until)
    from service.api.schemas.results import CaptionHit, PictureHit  # noqa: PLC0415 - half a second, as the client

    target = "captions" if captions else "images"
    asked = k if captions else min(k + 1, MOST_RESULTS)  # one more, in the place of the picture itself
    with connect(url) as client:
        answer = client.search_image(
            picture, target=target, k=asked, shortlist=max(asked, 100), model=model, filter=condition
        )
    if not captions:
        leave_out(answer, stored_id(picture), k)
    if as_json:
        print_json(answer)
        return
    if answer.note is not None:
        print(answer.note)
    elif captions:
        print_caption_hits([hit for hit in answer.results if isinstance(hit, CaptionHit)])
    else:
        print_picture_hits([hit for hit in answer.results if isinstance(hit, PictureHit)])


def stored_id(picture: Path) -> str:
    """The id that a file has once it is stored."""
    with picture.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def leave_out(answer: "ImageAnswer", image_id: str, k: int) -> None:
    """Take one picture out of an answer; the best `k` of the others stay, ranked anew."""
    others = [hit for hit in answer.results if hit.image_id != image_id][:k]
    answer.k = k
    answer.results = [hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(others, 1)]  # type: ignore[assignment]
