"""Ingestion: uploads, the progress of their jobs, and pictures that were set aside."""

from fastapi import APIRouter, Request, Response

from service.api.dependencies import ServicesDep, content_length
from service.api.openapi import INGEST_FORM
from service.api.problems import problem_responses
from service.api.schemas.resources import Accepted, FailuresAnswer, IngestAnswer, JobAnswer, Rejected
from service.api.serializers import failure_answer, job_answer
from service.errors import (
    FeaturesOnly,
    InvalidRequest,
    NotFound,
    NothingAccepted,
    Problem,
    TooLarge,
)

router = APIRouter(tags=["ingestion"])

PATH = "/ingest"


@router.post(
    PATH,
    operation_id="ingest",
    summary="Take pictures in",
    status_code=202,
    openapi_extra=INGEST_FORM,
    responses=problem_responses(NothingAccepted, InvalidRequest, FeaturesOnly, TooLarge, Problem),
)
async def ingest(request: Request, response: Response, services: ServicesDep) -> IngestAnswer:
    """202 means the accepted files are safe: they will be searchable whatever is killed from here on."""
    receipt = await services.intake.receive(
        request.headers.get("content-type", ""), content_length(request), request.stream()
    )
    status_url = f"/jobs/{receipt.job_id}"
    response.headers["Location"] = status_url
    return IngestAnswer(
        job_id=receipt.job_id,
        status_url=status_url,
        accepted=[
            Accepted(image_id=one.image_id, filename=one.filename, duplicate=one.duplicate) for one in receipt.accepted
        ],
        rejected=[Rejected(filename=one.filename, problem=one.problem) for one in receipt.rejected],
    )


@router.get(
    "/jobs/{job_id}",
    operation_id="get_job",
    summary="How far an ingestion is",
    responses=problem_responses(NotFound, Problem),
)
def get_job(job_id: str, services: ServicesDep) -> JobAnswer:
    """`done` once every picture of the job can be found, or was set aside with its reason."""
    job = services.progress.job(job_id)
    if job is None:
        raise NotFound(f"There is no job {job_id}.")
    return job_answer(job)


@router.get(
    "/failures", operation_id="list_failures", summary="Pictures set aside", responses=problem_responses(Problem)
)
def list_failures(services: ServicesDep) -> FailuresAnswer:
    """Files that could not be decoded in three attempts, the latest first, each with its reason."""
    return FailuresAnswer(failures=[failure_answer(one) for one in services.catalog.failures()])
