"""The catalog's records as bodies of answers."""

from index.records import Failure, Image, JobStatus
from service.api.schemas.resources import FailureAnswer, ImageListed, JobAnswer
from service.search.results import picture_url, thumbnail_url


def image_listed(image: Image) -> ImageListed:
    """A stored picture."""
    record = {name: value for name, value in vars(image).items() if name in ImageListed.model_fields}
    return ImageListed.model_validate({**record, "url": picture_url(image), "thumbnail_url": thumbnail_url(image)})


def failure_answer(failure: Failure) -> FailureAnswer:
    """A picture set aside."""
    return FailureAnswer.model_validate(failure)


def job_answer(job: JobStatus) -> JobAnswer:
    """Progress of an ingestion."""
    return JobAnswer.model_validate(job)
