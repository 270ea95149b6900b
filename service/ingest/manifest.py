"""The manifest of an upload: captions, tags and dates of its files, by file name."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from index.catalog.changes.decided_fields import DEFAULT_DATE
from index.catalog.changes.description_bounds import MOST_CAPTIONS, MOST_TAGS
from index.catalog.text_index import composed
from service.dates import check_date, unix_seconds
from service.errors import InvalidRequest
from service.ingest.filenames import display_name
from service.ingest.multipart import escaped
from service.validation_messages import plain_message

MAX_ERRORS_SHOWN = 20  # of one manifest
LONGEST_SENT_CAPTION = 512  # characters
ALIKE_NAMES = "two of its names differ by how their accents are composed alone"


def _strip_caption(text: str) -> str:
    if not text.strip():
        raise ValueError("a caption must have at least one word")
    return text.strip()


def _check_tag(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:  # filters have this range, too
        raise PydanticCustomError("tag", "a whole number of more than 64 bits is no tag: write it as a text")
    try:
        return check(value)
    except ValidationError:  # its message lists each type of the union
        raise PydanticCustomError("tag", "a tag is a text of at most 512 characters or a finite number") from None


def _check_names(tags: Any) -> Any:
    if isinstance(tags, dict) and len({composed(str(name)) for name in tags}) < len(tags):
        raise ValueError(ALIKE_NAMES)
    return tags


OneProblem = WrapValidator(_check_tag)  # for a tag value, perhaps null
DistinctNames = BeforeValidator(_check_names)  # for a mapping of tags, after its bound


Caption = Annotated[str, StringConstraints(max_length=LONGEST_SENT_CAPTION), AfterValidator(_strip_caption)]
TagName = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(composed)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # the range of SQLite
Number = Annotated[float, Field(allow_inf_nan=False)]
TagText = Annotated[str, StringConstraints(max_length=512), AfterValidator(composed)]
TagContent = TagText | Int64 | Number
SentTags = Annotated[dict[TagName, Annotated[TagContent, OneProblem]], Field(max_length=MOST_TAGS), DistinctNames]
Timestamp = Annotated[str, AfterValidator(check_date)]


class ManifestEntry(BaseModel):
    """Captions, tags and date of one file.

    The defaults apply only to a new picture, so that they undo no edit: tags where `tags` lack the name, a date where
    its file holds none. The `decided` fields are complete as given, even if empty: until the picture has regions, its
    file adds nothing to them.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    captions: list[Caption] = Field(default_factory=list, max_length=MOST_CAPTIONS)
    tags: SentTags = Field(default_factory=dict)
    default_tags: SentTags = Field(default_factory=dict)
    taken_at: Timestamp | None = None
    default_captions: list[Caption] = Field(default_factory=list, max_length=MOST_CAPTIONS)
    default_taken_at: Timestamp | None = None
    decided: list[Literal["captions", "tags", "taken_at"]] = Field(default_factory=list, max_length=3)

    @property
    def taken_seconds(self) -> float | None:
        """`taken_at` in unix seconds; the beginning of a year, month or day."""
        return None if self.taken_at is None else unix_seconds(self.taken_at)

    def of_new_picture(self, is_dated: bool) -> "ManifestEntry":
        """The entry with its default captions in place, and its date unless a copy sent before has given one."""
        changed: dict[str, Any] = {"captions": [*self.captions, *self.default_captions]}
        if not is_dated and self.taken_at is None and self.default_taken_at is not None:
            changed |= {"taken_at": self.default_taken_at, "decided": [*self.decided, DEFAULT_DATE]}
        return self.model_copy(update=changed)


_MANIFEST = TypeAdapter(dict[str, ManifestEntry])


def parse_manifest(text: str, filenames: Iterable[str], raw_names: Iterable[str] = ()) -> dict[str, ManifestEntry]:
    """The manifest by file name in Unicode normal form C; InvalidRequest where it is malformed, or names a file that
    was not sent. `raw_names` are names with escapes, some of which may be the name's own."""
    try:
        described = _MANIFEST.validate_json(text)
    except ValidationError as invalid:
        errors = [
            {
                "field": ".".join(["manifest", *(display_name(str(step)) for step in error["loc"])]),
                "problem": plain_message(error),
            }
            for error in invalid.errors(include_url=False)[:MAX_ERRORS_SHOWN]
        ]
        raise InvalidRequest(f"{errors[0]['field']}: {errors[0]['problem']}", errors) from None
    entries = {composed(name): entry for name, entry in described.items()}
    if len(entries) < len(described):
        raise InvalidRequest.field("manifest", ALIKE_NAMES)
    sent, escapes = set(map(composed, filenames)), set(map(escaped, raw_names))
    unknown = [name for name in entries if name not in sent and escaped(name) not in escapes][:MAX_ERRORS_SHOWN]
    if unknown:
        raise InvalidRequest(
            f"The manifest describes {display_name(unknown[0])!r}, which is not among the files sent.",
            [
                {"field": f"manifest.{display_name(name)}", "problem": "no file of this name was sent"}
                for name in unknown
            ],
        )
    return entries
