"""Bodies about archives of originals."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from service.api.schemas.resources import Answer
from service.search.requests import ImageId

MOST_PICTURES = 1000


class ArchiveRequest(BaseModel):
    """The pictures of an archive."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image_ids: Annotated[list[ImageId], Field(min_length=1, max_length=MOST_PICTURES)] = Field(
        description="Each picture is sent once."
    )


class ArchiveTicket(Answer):
    """The address of a download that a browser makes by itself."""

    url: str = Field(description="The address to send a form to, by POST, with the same `image_ids`.")
    pictures: int
    num_bytes: int = Field(description="The size of the files; the archive is a little larger.")
    lasts_s: int = Field(description="Seconds from now until which the download can begin.")
