"""The manifest of an upload: captions, tags and dates of its files, by file name."""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from service.errors import InvalidRequest

RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
MAX_ERRORS_SHOWN = 20  # of one manifest


def unix_seconds(text: str) -> float:
    """Unix seconds of a date and time in RFC 3339; ValueError for anything else, as one without a time zone."""
    if not RFC_3339.fullmatch(text):
        raise ValueError("must be a date and time as in RFC 3339, such as 2024-05-06T07:08:09+02:00")
    return datetime.fromisoformat(text.upper()).timestamp()


def _check_timestamp(text: str) -> str:
    unix_seconds(text)
    return text


def _strip_caption(text: str) -> str:
    if not text.strip():
        raise ValueError("a caption must have at least one word")
    return text.strip()


Caption = Annotated[str, StringConstraints(max_length=512), AfterValidator(_strip_caption)]
TagName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # larger ones become floats: SQLite has no such integers
Number = Annotated[float, Field(allow_inf_nan=False)]
TagText = Annotated[str, StringConstraints(max_length=512)]


class ManifestEntry(BaseModel):
    """Captions, tags and date of one file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    captions: list[Caption] = Field(default_factory=list, max_length=100)
    tags: dict[TagName, TagText | Int64 | Number] = Field(default_factory=dict, max_length=100)
    taken_at: Annotated[str, AfterValidator(_check_timestamp)] | None = None

    @property
    def taken_seconds(self) -> float | None:
        """`taken_at` in unix seconds."""
        return None if self.taken_at is None else unix_seconds(self.taken_at)


_MANIFEST = TypeAdapter(dict[str, ManifestEntry])


def parse_manifest(text: str, filenames: Iterable[str]) -> dict[str, ManifestEntry]:
    """The manifest by file name; InvalidRequest where it is malformed or names a file that was not sent."""
    try:
        entries = _MANIFEST.validate_json(text)
    except ValidationError as invalid:
        errors = [
            {
                "field": ".".join(["manifest", *(str(step) for step in error["loc"])]),
                "problem": error["msg"].removeprefix("Value error, "),
            }
            for error in invalid.errors(include_url=False)[:MAX_ERRORS_SHOWN]
        ]
        raise InvalidRequest(f"{errors[0]['field']}: {errors[0]['problem']}", errors) from None
    sent = set(filenames)
    unknown = [name for name in entries if name not in sent][:MAX_ERRORS_SHOWN]
    if unknown:
        raise InvalidRequest(
            f"The manifest describes {unknown[0]!r}, which is not among the files sent.",
            [{"field": f"manifest.{name}", "problem": "no file of this name was sent"} for name in unknown],
        )
    return entries
