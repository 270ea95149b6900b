"""The body of a request that edits a picture's description."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from index.catalog.changes.description_bounds import MOST_CAPTIONS, MOST_TAGS
from index.records import UNCHANGED, PictureChange
from service.dates import unix_seconds
from service.ingest.filenames import MAX_LENGTH, display_name
from service.ingest.manifest import Caption, DistinctNames, OneProblem, TagContent, TagName, Timestamp

Filename = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LENGTH), AfterValidator(display_name)]
EditedTags = Annotated[
    dict[TagName, Annotated[TagContent | None, OneProblem]], Field(max_length=MOST_TAGS), DistinctNames
]


def without_default(schema: dict[str, Any]) -> None:
    """Leave the default out of a schema: it marks an absent field, and is not a valid value."""
    del schema["default"]


class PictureEdit(BaseModel):
    """A merge patch: absent fields stay as they are, null removes."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    captions: list[Caption] | None = Field(
        None, max_length=MOST_CAPTIONS, description="All captions from now on; null or [] for none."
    )
    tags: EditedTags | None = Field(
        None, description="Tags to set, or to take away where null; null for no tags at all."
    )
    taken_at: Timestamp | None = Field(None, description="A year, month, day, or RFC 3339 time; null for none.")
    filename: Filename = Field(
        "", description="The name that is shown. It has to stay one.", json_schema_extra=without_default
    )

    def as_change(self) -> PictureChange:
        """The change for the catalog."""
        present = self.model_fields_set
        taken_at = None if self.taken_at is None else unix_seconds(self.taken_at)
        return PictureChange(
            captions=(self.captions or ()) if "captions" in present else UNCHANGED,
            tags=self.tags if "tags" in present else UNCHANGED,
            taken_at=taken_at if "taken_at" in present else UNCHANGED,
            filename=self.filename if "filename" in present else UNCHANGED,
        )
