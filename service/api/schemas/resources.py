"""Bodies of responses about pictures, jobs and models; those of searches are in results.py."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from service.dates import within_years


def _from_unix(value: Any) -> Any:
    """Unix seconds as a time in UTC; anything else as it is."""
    if isinstance(value, float):
        return datetime.fromtimestamp(within_years(value), UTC)  # catalogs of earlier releases hold others
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_from_unix)]
"""A time with an offset, also made from the catalog's unix seconds."""


class Answer(BaseModel):
    """A JSON object of an answer, made from keywords or from the attributes of another object."""

    model_config = ConfigDict(
        extra="forbid",
        protected_namespaces=(),
        from_attributes=True,
        json_schema_serialization_defaults_required=True,  # each answer has all of its fields
    )


class Box(Answer):
    """One region of a picture."""

    box: tuple[float, float, float, float] | None = Field(
        description="x1 y1 x2 y2 in pixels of the upright picture; null where features came without boxes."
    )
    label: str = Field(description="`region` where nothing more is known.")
    confidence: float | None = Field(description="Null where features came without one.")


class Accepted(Answer):
    """An accepted file."""

    image_id: str
    filename: str
    duplicate: bool = Field(description="True when this very picture was already there.")
    restored: bool = Field(description="True when it had been deleted, and came back with what was said of it.")


class Rejected(Answer):
    """A rejected file, and the reason."""

    filename: str
    problem: str
    retryable: bool = Field(description="The service had no time for it: the same file may be accepted later.")
    deleted: bool = Field(description="The picture is deleted, and stays so, since the form has `restore=false`.")


class IngestAnswer(Answer):
    """The outcome for each file; the accepted ones are durably stored and will be searchable soon."""

    job_id: str
    status_url: str
    accepted: list[Accepted]
    rejected: list[Rejected]


class FailureAnswer(Answer):
    """A picture that was set aside, and the reason."""

    image_id: str
    filename: str
    reason: str
    attempts: int


class FailuresAnswer(Answer):
    """Pictures that were set aside; `next` is the `after` of the next page, if there is one."""

    failures: list[FailureAnswer]
    next: str | None


class JobAnswer(Answer):
    """The progress of an ingestion job."""

    job_id: str
    created_at: Moment
    state: Literal["queued", "running", "done"] = Field(
        description="`done` once every picture can be found or was set aside."
    )
    total: int
    done: int
    failed: int
    failures: list[FailureAnswer]


class JobListed(Answer):
    """A job among others, without its failures."""

    job_id: str
    created_at: Moment
    state: Literal["queued", "running", "done"]
    total: int
    done: int
    failed: int


class JobsAnswer(Answer):
    """A page of jobs, the latest first; `next` is the `after` of the following page, null on the last."""

    jobs: list[JobListed]
    next: str | None


class RetryAnswer(Answer):
    """The job in which a picture that was set aside is tried again."""

    job_id: str
    status_url: str


class RegionsAnswer(Answer):
    """The regions found in a picture, best first."""

    image_id: str
    width: int | None = Field(description="Null where features came without it.")
    height: int | None
    extractor: str = Field(description="Digest of the detector that found them, or the name its features go by.")
    regions: list[Box]


class ImageListed(Answer):
    """A stored picture."""

    image_id: str
    filename: str
    url: str | None = Field(description="Null where there is nothing to show: of features alone, or deleted.")
    thumbnail_url: str | None = Field(description="Null where features alone were taken in.")
    width: int | None = Field(description="Null until the picture has been decoded.")
    height: int | None
    state: Literal["queued", "ready", "failed", "deleted"]
    taken_at: Moment | None
    added_at: Moment
    deleted_at: Moment | None = Field(
        None,
        exclude_if=lambda moment: moment is None,
        description="Only of what is deleted. From then on it can be brought back for a day, or whatever"
        " REGARD_DELETE_GRACE_S says.",
    )
    captions: list[str]
    tags: dict[str, str | int | float]


class ImageInfo(ImageListed):
    """Everything known about a picture."""

    num_bytes: int = Field(description="Size of the file as it was uploaded.")
    kind: str = Field(description="Kind of file, such as `jpg`; `features` where there is no picture.")
    extractor: str | None = Field(description="What found the regions; null until then.")
    regions: list[Box] | None = Field(description="Best first; null until they are found.")
    failure: FailureAnswer | None = Field(description="Why it was set aside; null where it was not.")


class ImagesAnswer(Answer):
    """A page of pictures; `next` is the `after` of the following page, null on the last.

    `total` is how many pictures pass the filter, on all pages, and `queued` how many of them wait for their regions;
    both are counted with the first page, and null on later ones.
    """

    images: list[ImageListed]
    next: str | None
    total: int | None
    queued: int | None


class TagValue(Answer):
    """A value and how many pictures carry it."""

    value: str | int | float
    pictures: int


class TagListed(Answer):
    """A tag name, how many pictures carry it, and the most frequent of its values."""

    name: str
    pictures: int
    distinct_values: int
    values: list[TagValue]


class TagsAnswer(Answer):
    """A page of the tags in use; `next` is the `after` of the following page, null on the last."""

    tags: list[TagListed]
    next: str | None


class MonthListed(Answer):
    """A month, in UTC, and how many pictures were taken in it."""

    month: str = Field(description="Such as `2024-05`, which a filter's `taken_at` takes.")
    pictures: int


class DatesAnswer(Answer):
    """The months in which pictures were taken, the latest first."""

    months: list[MonthListed]
    undated: int = Field(description="How many pictures have no date.")


class ModelListed(Answer):
    """A model, and how many of the stored pictures and captions its view holds."""

    name: str
    digest: str
    default: bool
    loaded: bool = Field(description="False until a query first names it, which waits until it is loaded.")
    calibrated: bool = Field(description="Whether its answers carry a probability.")
    state: Literal["ready", "building", "not built"]
    pictures: int
    captions: int
    missing_pictures: int
    missing_captions: int


class MigrationAnswer(Answer):
    """The progress of a new detector in finding the regions of all stored pictures."""

    extractor: str = Field(description="Digest of the detector that finds them now.")
    former: list[str] = Field(
        description="Digests of those whose regions, and the views of their models, stay until it is done."
    )
    done: int = Field(description="Pictures whose regions are found anew. Their views follow within seconds.")
    total: int
    seconds_left: float | None = Field(description="At the recent rate; null before one is known, and at the end.")
    message: str = Field(description="The same in words.")


class ModelsAnswer(Answer):
    """The models of this server."""

    models: list[ModelListed]
    collection: str | None = Field(
        None,
        description="The id of the collection of pictures that they search; another data directory has another one,"
        " and so has a restored snapshot. Null in a cluster.",
    )
    migration: MigrationAnswer | None = Field(
        None,
        description="Null unless the regions of all pictures are being found anew. Until that is done, models of this"
        " detector search the pictures that they do not list as missing.",
    )


class ReadyAnswer(Answer):
    """The parts that were checked, each with its state."""

    status: Literal["ready"]
    checks: dict[str, str]


class LiveAnswer(Answer):
    """The process answers."""

    status: Literal["alive"]


class FieldProblem(BaseModel):
    """One wrong field."""

    field: str
    problem: str


class ProblemAnswer(BaseModel):
    """RFC 9457; which members there are besides the first five depends on the type, and there may be others."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    instance: str
    # Made by factories, since a default in the document would say that absent members are null.
    errors: list[FieldProblem] = Field(default_factory=list, description="With `invalid-request`: each wrong field.")
    rejected: list[Rejected] = Field(
        default_factory=list, description="With `nothing-accepted`: each file, and why it was refused."
    )
    known: list[str] = Field(default_factory=list, description="With `unknown-model`: the names there are.")
    needed: Literal["read", "write", "admin"] = Field(
        default_factory=lambda: "read", description="With `forbidden`: the permission that is missing."
    )
    retry_after: int = Field(default_factory=int, description="As in the header `Retry-After`, which came with it.")
