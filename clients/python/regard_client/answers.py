"""Types of a server's answers and requests. Written by generate_answers.py from the OpenAPI document."""

from typing import Literal, NotRequired, TypedDict


class Accepted(TypedDict):
    """An accepted file."""

    image_id: str
    filename: str
    duplicate: bool
    restored: bool


class ArchiveTicket(TypedDict):
    """The address of a download that a browser makes by itself."""

    url: str
    pictures: int
    num_bytes: int
    lasts_s: int


class Box(TypedDict):
    """One region of a picture."""

    box: list[float] | None
    label: str
    confidence: float | None


class Token(TypedDict):
    """One word as the model scored it."""

    text: str
    special: bool
    content: bool
    excluded: NotRequired[bool]


class ExplanationAnswer(TypedDict):
    """The explanation of a result's score; null where the model has no exact answer."""

    kind: Literal["words attend regions", "regions attend words", "weights", "text"]
    words: list[Token]
    contributions: list[float] | None
    regions: list[Box]
    attention: list[list[float]] | None
    shares: list[list[float]] | None
    word_weights: list[float] | None
    region_weights: list[float] | None


class CaptionHit(TypedDict):
    """A caption that was found."""

    rank: int
    caption_id: int
    text: str
    image_id: str
    score: float
    probability: float | None
    shortlist_rank: int
    explanation: NotRequired[ExplanationAnswer | None]


class ImageTimings(TypedDict):
    """Milliseconds of each stage, including finding the regions of an uploaded picture."""

    encode: float
    shortlist: float
    rerank: float
    total: float
    load: NotRequired[float | None]
    detect: float


class ShardCountsAnswer(TypedDict):
    """The numbers of shards asked and of those that answered; if these are fewer, the answer is partial."""

    asked: int
    answered: int


class Period(TypedDict):
    """The time from `gte` to `lte`, both included: years, months or days, or RFC 3339 times with an offset."""

    gte: NotRequired[str | None]
    lte: NotRequired[str | None]


class SuggestionAnswer(TypedDict):
    """The words of a query beside a date that pictures have, and that date as a filter."""

    query: str
    taken_at: Period


class CaptionsAnswer(TypedDict):
    """Captions for a picture, best first."""

    model: str
    model_digest: str
    k: int
    shortlist: int
    index_version: str
    cached: bool
    left_out: int
    matched: bool | None
    suggestion: NotRequired[SuggestionAnswer | None]
    shards: NotRequired[ShardCountsAnswer | None]
    target: Literal["captions"]
    query: NotRequired[str | None]
    unknown_words: NotRequired[list[str] | None]
    read_as: NotRequired[dict[str, str] | None]
    note: NotRequired[str | None]
    results: list[CaptionHit]
    timings_ms: ImageTimings


class MonthListed(TypedDict):
    """A month, in UTC, and how many pictures were taken in it."""

    month: str
    pictures: int


class DatesAnswer(TypedDict):
    """The months in which pictures were taken, the latest first."""

    months: list[MonthListed]
    undated: int


class FailureAnswer(TypedDict):
    """A picture that was set aside, and the reason."""

    image_id: str
    filename: str
    reason: str
    attempts: int


class FailuresAnswer(TypedDict):
    """Pictures that were set aside; `next` is the `after` of the next page, if there is one."""

    failures: list[FailureAnswer]
    next: str | None


class FieldProblem(TypedDict):
    """One wrong field."""

    field: str
    problem: str


class ImageInfo(TypedDict):
    """Everything known about a picture."""

    image_id: str
    filename: str
    url: str | None
    thumbnail_url: str | None
    width: int | None
    height: int | None
    state: Literal["queued", "ready", "failed", "deleted"]
    taken_at: str | None
    added_at: str
    deleted_at: NotRequired[str | None]
    captions: list[str]
    tags: dict[str, str | int | float]
    num_bytes: int
    kind: str
    extractor: str | None
    regions: list[Box] | None
    failure: FailureAnswer | None


class ImageListed(TypedDict):
    """A stored picture."""

    image_id: str
    filename: str
    url: str | None
    thumbnail_url: str | None
    width: int | None
    height: int | None
    state: Literal["queued", "ready", "failed", "deleted"]
    taken_at: str | None
    added_at: str
    deleted_at: NotRequired[str | None]
    captions: list[str]
    tags: dict[str, str | int | float]


class ImagesAnswer(TypedDict):
    """A page of pictures; `next` is the `after` of the following page, null on the last.  `total` is how many pictures
    pass the filter, on all pages, and `queued` how many of them wait for their regions; both are counted with the first
    page, and null on later ones."""

    images: list[ImageListed]
    next: str | None
    total: int | None
    queued: int | None


class Rejected(TypedDict):
    """A rejected file, and the reason."""

    filename: str
    problem: str
    retryable: bool
    deleted: bool


class IngestAnswer(TypedDict):
    """The outcome for each file; the accepted ones are durably stored and will be searchable soon."""

    job_id: str
    status_url: str
    accepted: list[Accepted]
    rejected: list[Rejected]


class JobAnswer(TypedDict):
    """The progress of an ingestion job."""

    job_id: str
    created_at: str
    state: Literal["queued", "running", "done"]
    total: int
    done: int
    failed: int
    failures: list[FailureAnswer]


class JobListed(TypedDict):
    """A job among others, without its failures."""

    job_id: str
    created_at: str
    state: Literal["queued", "running", "done"]
    total: int
    done: int
    failed: int


class JobsAnswer(TypedDict):
    """A page of jobs, the latest first; `next` is the `after` of the following page, null on the last."""

    jobs: list[JobListed]
    next: str | None


class LiveAnswer(TypedDict):
    """The process answers."""

    status: Literal["alive"]


class MigrationAnswer(TypedDict):
    """The progress of a new detector in finding the regions of all stored pictures."""

    extractor: str
    former: list[str]
    done: int
    total: int
    seconds_left: float | None
    message: str


class ModelListed(TypedDict):
    """A model, and how many of the stored pictures and captions its view holds."""

    name: str
    digest: str
    default: bool
    loaded: bool
    calibrated: bool
    state: Literal["ready", "building", "not built"]
    pictures: int
    captions: int
    missing_pictures: int
    missing_captions: int


class ModelsAnswer(TypedDict):
    """The models of this server."""

    models: list[ModelListed]
    collection: str | None
    migration: MigrationAnswer | None


class NearDuplicateAnswer(TypedDict):
    """A picture that looks like a result, and is shown with it."""

    image_id: str
    filename: str
    thumbnail_url: str | None
    bits: int


class PictureEdit(TypedDict):
    """A merge patch: absent fields stay as they are, null removes."""

    captions: NotRequired[list[str] | None]
    tags: NotRequired[dict[str, str | int | float | None] | None]
    taken_at: NotRequired[str | None]
    filename: NotRequired[str]


class Range(TypedDict):
    """The values from `gte` to `lte`, both included; one of them may be left out."""

    gte: NotRequired[str | int | float | None]
    lte: NotRequired[str | int | float | None]


class PictureFilter(TypedDict):
    """Conditions on the pictures that may answer; applied before the shortlist is made, so nothing better is lost."""

    tags: NotRequired[dict[str, str | int | float | list[str | int | float] | Range]]
    taken_at: NotRequired[Period | str | None]


class PictureHit(TypedDict):
    """A picture that was found."""

    rank: int
    image_id: str
    found_by: list[Literal["pictures", "text"]]
    score: float | None
    probability: float | None
    shortlist_rank: int | None
    url: str | None
    thumbnail_url: str | None
    width: int | None
    height: int | None
    filename: str
    taken_at: str | None
    captions: list[str]
    tags: dict[str, str | int | float]
    near_duplicates: NotRequired[list[NearDuplicateAnswer] | None]
    explanation: NotRequired[ExplanationAnswer | None]


class ProblemAnswer(TypedDict):
    """RFC 9457; which members there are besides the first five depends on the type, and there may be others."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: NotRequired[list[FieldProblem]]
    rejected: NotRequired[list[Rejected]]
    known: NotRequired[list[str]]
    needed: NotRequired[Literal["read", "write", "admin"]]
    retry_after: NotRequired[int]


class ReadyAnswer(TypedDict):
    """The parts that were checked, each with its state."""

    status: Literal["ready"]
    checks: dict[str, str]


class RegionsAnswer(TypedDict):
    """The regions found in a picture, best first."""

    image_id: str
    width: int | None
    height: int | None
    extractor: str
    regions: list[Box]


class RetryAnswer(TypedDict):
    """The job in which a picture that was set aside is tried again."""

    job_id: str
    status_url: str


class SimilarAnswer(TypedDict):
    """Pictures like a picture, best first."""

    model: str
    model_digest: str
    k: int
    shortlist: int
    index_version: str
    cached: bool
    left_out: int
    matched: bool | None
    suggestion: NotRequired[SuggestionAnswer | None]
    shards: NotRequired[ShardCountsAnswer | None]
    target: Literal["images"]
    query: NotRequired[str | None]
    unknown_words: NotRequired[list[str] | None]
    read_as: NotRequired[dict[str, str] | None]
    note: NotRequired[str | None]
    results: list[PictureHit]
    timings_ms: ImageTimings


class TagValue(TypedDict):
    """A value and how many pictures carry it."""

    value: str | int | float
    pictures: int


class TagListed(TypedDict):
    """A tag name, how many pictures carry it, and the most frequent of its values."""

    name: str
    pictures: int
    distinct_values: int
    values: list[TagValue]


class TagsAnswer(TypedDict):
    """A page of the tags in use; `next` is the `after` of the following page, null on the last."""

    tags: list[TagListed]
    next: str | None


class TextTimings(TypedDict):
    """Milliseconds of each stage, including the search of file names, captions, tags and dates."""

    encode: float
    shortlist: float
    rerank: float
    total: float
    load: NotRequired[float | None]
    text: float


class TextAnswer(TypedDict):
    """Pictures for a sentence, best first."""

    model: str
    model_digest: str
    k: int
    shortlist: int
    index_version: str
    cached: bool
    left_out: int
    matched: bool | None
    suggestion: NotRequired[SuggestionAnswer | None]
    shards: NotRequired[ShardCountsAnswer | None]
    query: str
    match: Literal["pictures", "text", "both"]
    matched_by_pictures: bool | None
    unknown_words: list[str]
    read_as: dict[str, str]
    note: NotRequired[str | None]
    results: list[PictureHit]
    timings_ms: TextTimings
