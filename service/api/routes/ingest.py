"""Ingestion: uploads, the progress of their jobs, and pictures that were set aside."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from index.catalog.ingestion.failures import FailureKey
from index.catalog.ingestion.jobs import JobKey
from service.api.dependencies import ServicesDep, content_length, in_change_thread
from service.api.job_events import ENDED, EventStream, job_events
from service.api.openapi.document import INGEST_FORM
from service.api.page_cursors import LONGEST_CURSOR, cursor_after_failure, cursor_after_job, key_of
from service.api.problems import problem_responses
from service.api.schemas.resources import (
    Accepted,
    FailureAnswer,
    FailuresAnswer,
    IngestAnswer,
    JobAnswer,
    JobListed,
    JobsAnswer,
    Rejected,
    RetryAnswer,
)
from service.api.services import Services
from service.errors import (
    Conflict,
    DiskFull,
    FeaturesOnly,
    InvalidRequest,
    NotFound,
    NothingAccepted,
    Overloaded,
    Problem,
    ReadOnlyCollection,
    TooLarge,
)

router = APIRouter(tags=["ingestion"])

PATH = "/ingest"

After = Annotated[str | None, Query(description="The `next` of the page before.", max_length=LONGEST_CURSOR)]


@router.post(
    PATH,
    operation_id="ingest",
    summary="Take pictures in",
    status_code=202,
    openapi_extra=INGEST_FORM,
    responses=problem_responses(
        NothingAccepted, InvalidRequest, FeaturesOnly, ReadOnlyCollection, TooLarge, Overloaded, DiskFull, Problem
    ),
)
async def ingest(request: Request, response: Response, services: ServicesDep) -> IngestAnswer:
    """202 means the accepted files are safe: they will be searchable whatever is killed from here on."""
    with services.capacity.uploads.taken():
        receipt = await services.intake.receive(
            request.headers.get("content-type", ""), content_length(request), request.stream()
        )
    status_url = f"/jobs/{receipt.job_id}"
    response.headers["Location"] = status_url
    return IngestAnswer(
        job_id=receipt.job_id,
        status_url=status_url,
        accepted=[Accepted.model_validate(file, from_attributes=True) for file in receipt.accepted],
        rejected=[Rejected.model_validate(file, from_attributes=True) for file in receipt.rejected],
    )


@router.get(
    "/jobs",
    operation_id="list_jobs",
    summary="Latest ingestions",
    responses=problem_responses(InvalidRequest, Problem),
)
def list_jobs(
    services: ServicesDep,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=100, description="How many at most.")] = 20,
) -> JobsAnswer:
    """Jobs, the latest first, each with its progress. A finished one is forgotten once another is 30 days younger."""
    jobs = services.collection.progress.jobs(key_after(after), limit + 1)
    page = jobs[:limit]
    following = cursor_after_job(page[-1]) if len(jobs) > limit else None
    return JobsAnswer(jobs=[JobListed.model_validate(job) for job in page], next=following)


@router.get(
    "/jobs/{job_id}",
    operation_id="get_job",
    summary="How far an ingestion is",
    responses=problem_responses(NotFound, Problem),
)
def get_job(job_id: str, services: ServicesDep) -> JobAnswer:
    """`done` once every picture of the job can be found, or was set aside with its reason."""
    job = current(services, job_id)
    if job is None:
        raise NotFound(f"There is no job {job_id}.")
    return job


@router.get(
    "/jobs/{job_id}/events",
    operation_id="follow_job",
    summary="How far an ingestion is, as it goes on",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events `progress`, each with the body of `GET /jobs/{job_id}` as its data; in the last one"
            " `state` is `done`. If that one's id comes back in `Last-Event-ID`, the status is 204: nothing follows.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **problem_responses(NotFound, Overloaded, Problem),
    },
)
async def follow_job(job_id: str, request: Request, services: ServicesDep) -> Response:
    """Server-sent events until the job is done, for ten minutes at most; an EventSource then reconnects by itself."""

    async def look() -> JobAnswer | None:
        return await asyncio.to_thread(current, services, job_id)

    slots = services.capacity.streams
    slots.check()
    first = await look()
    if first is None:
        raise NotFound(f"There is no job {job_id}.")
    if first.state == "done" and request.headers.get("last-event-id") == ENDED:
        return Response(status_code=204)  # at which an EventSource, unlike at the end of a stream, stops
    return EventStream(job_events(first, look, is_over=services.ending.is_set), slots)


@router.get(
    "/failures",
    operation_id="list_failures",
    summary="Pictures set aside",
    responses=problem_responses(InvalidRequest, Problem),
)
def list_failures(
    services: ServicesDep,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 1000,
) -> FailuresAnswer:
    """Pictures that could not be read, or that have no regions, the latest first, each with its reason."""
    failures = services.collection.pictures.failures(key_after(after), limit + 1)
    page = failures[:limit]
    following = cursor_after_failure(page[-1]) if len(failures) > limit else None
    return FailuresAnswer(failures=[FailureAnswer.model_validate(failure) for failure in page], next=following)


@router.post(
    "/failures/{image_id}/retry",
    operation_id="retry_failure",
    summary="Try a picture again",
    status_code=202,
    responses=problem_responses(NotFound, Conflict, ReadOnlyCollection, DiskFull, Problem),
)
@in_change_thread
def retry_failure(image_id: str, response: Response, services: ServicesDep) -> RetryAnswer:
    """Retries a picture that was set aside as if it had just arrived, in a job of its own."""
    job_id = services.collection.pictures.retry(image_id, services.clock())
    if job_id is None:
        if services.collection.pictures.failure(image_id) is not None:
            raise Conflict(
                f"The original of picture {image_id} could not be read by the detector that came last: send the same"
                " file again, and it is read once more."
            )
        raise NotFound(f"No picture {image_id} was set aside.")
    services.wake()
    response.headers["Location"] = status_url = f"/jobs/{job_id}"
    return RetryAnswer(job_id=job_id, status_url=status_url)


def current(services: Services, job_id: str) -> JobAnswer | None:
    """The job as it is now; None where there is none."""
    job = services.collection.progress.job(job_id)
    return None if job is None else JobAnswer.model_validate(job)


def key_after(cursor: str | None) -> FailureKey | JobKey | None:
    """The place in a list after which a page begins; None at its start. Raises InvalidRequest for any other text."""
    try:
        return None if cursor is None else key_of(cursor)
    except ValueError as fault:
        raise InvalidRequest.field("after", str(fault)) from fault
