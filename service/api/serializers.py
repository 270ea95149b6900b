"""Conversion of the catalog's records of pictures to bodies of answers."""

from collections.abc import Sequence

from index.records import Failure, Image
from service.api.schemas.resources import Box, FailureAnswer, ImageInfo, ImageListed
from service.search.results import picture_url, thumbnail_url
from service.storage.regions.records import Region


def image_listed(image: Image) -> ImageListed:
    """A stored picture."""
    record = {name: value for name, value in vars(image).items() if name in ImageListed.model_fields}
    return ImageListed.model_validate({**record, "url": picture_url(image), "thumbnail_url": thumbnail_url(image)})


def image_info(image: Image, regions: Sequence[Region] | None, failure: Failure | None) -> ImageInfo:
    """A stored picture with its regions, if they are known, and the reason if it was set aside."""
    return ImageInfo(
        **vars(image_listed(image)),
        num_bytes=image.num_bytes,
        kind=image.extension,
        extractor=image.extractor,
        regions=None if regions is None else [Box.model_validate(region) for region in regions],
        failure=None if failure is None else FailureAnswer.model_validate(failure),
    )
