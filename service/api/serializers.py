"""Catalog and search values as the bodies that go over HTTP, and the other way round for filters."""

from datetime import UTC, datetime
from typing import Any

from index.filters import Filter
from index.records import Failure, Image, JobStatus
from service.api.schemas.requests import FilterAsked, Range
from service.api.schemas.resources import Box, FailureAnswer, ImageListed, JobAnswer
from service.api.schemas.results import CaptionHit, ExplanationAnswer, PictureHit, Token
from service.errors import InvalidRequest
from service.search.types import CaptionFound, Explained, Hit, Outcome, Region

# The first and last second of the years 1 to 9999: a date near either end, in a zone of its own, may lie outside.
FIRST, LAST = -62_135_596_800.0, 253_402_300_799.0


def moment(seconds: float) -> datetime:
    """Unix seconds as a time with an offset."""
    return datetime.fromtimestamp(min(max(seconds, FIRST), LAST), UTC)


def image_url(image: Image) -> str | None:
    """Where a picture's bytes are; nowhere when features alone came."""
    return f"/images/{image.image_id}" if image.pictured else None


def thumbnail_url(image: Image) -> str | None:
    """Where its thumbnail is, likewise."""
    return f"/images/{image.image_id}/thumbnail" if image.pictured else None


def filter_of(asked: FilterAsked | None) -> Filter | None:
    """A filter for the catalog; InvalidRequest where it makes no sense."""
    if asked is None or not (asked.tags or asked.taken_at):
        return None
    tags = {
        name: condition.model_dump(exclude_none=True) if isinstance(condition, Range) else condition
        for name, condition in asked.tags.items()
    }
    taken_at: dict[str, Any] | None = None
    if asked.taken_at:
        ends = {"gte": asked.taken_at.gte, "lte": asked.taken_at.lte}
        taken_at = {end: time.timestamp() for end, time in ends.items() if time is not None}
    try:
        return Filter(tags=tags, taken_at=taken_at)
    except ValueError as fault:
        raise InvalidRequest.field("filter", str(fault)) from fault


def box(region: Region) -> Box:
    """A region."""
    return Box(box=region.box, label=region.label, confidence=region.confidence)


def explanation(why: Explained) -> ExplanationAnswer:
    """The reasons of one result."""
    return ExplanationAnswer.model_validate(
        {
            "kind": why.kind,
            "words": [Token(text=word.text, special=word.special) for word in why.words],
            "contributions": why.contributions,
            "regions": [box(region) for region in why.regions],
            "attention": why.attention,
            "word_weights": why.word_weights,
            "region_weights": why.region_weights,
        }
    )


def _reasons(why: Explained | None) -> dict[str, ExplanationAnswer]:
    # Left unset, not null, where nobody asked: the answer then does not mention it.
    return {} if why is None else {"explanation": explanation(why)}


def picture_hits(outcome: Outcome) -> list[PictureHit]:
    """The pictures found, ranked."""
    return [_picture_hit(rank, hit) for rank, hit in enumerate(outcome.hits, start=1)]


def _picture_hit(rank: int, hit: Hit) -> PictureHit:
    image = hit.image
    return PictureHit(
        rank=rank,
        image_id=image.image_id,
        score=hit.score,
        probability=hit.probability,
        shortlist_rank=hit.shortlist_rank,
        url=image_url(image),
        thumbnail_url=thumbnail_url(image),
        width=image.width,
        height=image.height,
        filename=image.filename,
        taken_at=None if image.taken_at is None else moment(image.taken_at),
        captions=list(image.captions),
        tags=dict(image.tags),
        **_reasons(hit.explained),
    )


def caption_hits(outcome: Outcome) -> list[CaptionHit]:
    """The captions found, ranked."""
    return [_caption_hit(rank, one) for rank, one in enumerate(outcome.captions, start=1)]


def _caption_hit(rank: int, one: CaptionFound) -> CaptionHit:
    return CaptionHit(
        rank=rank,
        caption_id=one.caption.caption_id,
        text=one.caption.text,
        image_id=one.caption.image_id,
        score=one.score,
        probability=one.probability,
        shortlist_rank=one.shortlist_rank,
        **_reasons(one.explained),
    )


def listed(image: Image) -> ImageListed:
    """A stored picture."""
    return ImageListed(
        image_id=image.image_id,
        filename=image.filename,
        url=image_url(image),
        thumbnail_url=thumbnail_url(image),
        width=image.width,
        height=image.height,
        state=image.state,
        taken_at=None if image.taken_at is None else moment(image.taken_at),
        added_at=moment(image.added_at),
        captions=list(image.captions),
        tags=dict(image.tags),
    )


def failure(one: Failure) -> FailureAnswer:
    """A picture set aside."""
    return FailureAnswer(image_id=one.image_id, filename=one.filename, reason=one.reason, attempts=one.attempts)


def job_answer(job: JobStatus) -> JobAnswer:
    """How far a job is."""
    return JobAnswer(
        job_id=job.job_id,
        state=job.state,
        total=job.total,
        done=job.done,
        failed=job.failed,
        failures=[failure(one) for one in job.failures],
    )
