"""The catalog's records as bodies of answers."""

from collections.abc import Sequence

from index.records import Failure, Image, JobStatus
from service.api.schemas.resources import Box, FailureAnswer, ImageInfo, ImageListed, JobAnswer, JobListed
from service.search.results import picture_url, thumbnail_url
from service.storage.region_records import Region


def image_listed(image: Image) -> ImageListed:
    """A stored picture."""
    record = {name: value for name, value in vars(image).items() if name in ImageListed.model_fields}
    return ImageListed.model_validate({**record, "url": picture_url(image), "thumbnail_url": thumbnail_url(image)})


def image_info(image: Image, regions: Sequence[Region] | None, failure: Failure | None) -> ImageInfo:
    """A stored picture with its regions, as far as they are known, and why it was set aside, if it was."""
    return ImageInfo(
        **vars(image_listed(image)),
        num_bytes=image.num_bytes,
        kind=image.extension,
        extractor=image.extractor,
        regions=None if regions is None else [Box.model_validate(region) for region in regions],
        failure=None if failure is None else failure_answer(failure),
    )


def failure_answer(failure: Failure) -> FailureAnswer:
    """A picture set aside."""
    return FailureAnswer.model_validate(failure)


def job_answer(job: JobStatus) -> JobAnswer:
    """Progress of an ingestion."""
    return JobAnswer.model_validate(job)


def job_listed(job: JobStatus) -> JobListed:
    """Progress of an ingestion, in a list."""
    return JobListed.model_validate(job)
