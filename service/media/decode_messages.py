"""Requests to a decoding process, and the forms of its replies.

Replies are not trusted: one of another form, or one that does not fit its request, is rejected.
"""

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    TypeAdapter,
    model_validator,
)

from models.pictures import LONGEST_SIDE
from service.media.decode_worker import LARGEST_STRIPPED_FILE
from service.media.descriptions import LONGEST_CAPTION, LONGEST_KEYWORDS, shown
from service.media.file_type import EXTENSIONS

LARGEST_THUMBNAIL = 2**20
LARGEST_BODY = 3 * LONGEST_SIDE**2 + LARGEST_THUMBNAIL + LARGEST_STRIPPED_FILE


@dataclass(frozen=True, kw_only=True)
class InspectRequest:
    """A request for the format of a file, read from its header."""

    path: str
    do: Literal["inspect"] = "inspect"


@dataclass(frozen=True, kw_only=True)
class DecodeRequest:
    """A request for parts of a picture: `pixels` for the detector, with the file's metadata (its coordinates only with
    `coordinates`); a `thumbnail`; and the display copy, if `stripped` gives the original's extension."""

    path: str
    pixels: bool = False
    thumbnail: bool = False
    stripped: str | None = None
    coordinates: bool = False
    do: Literal["decode"] = "decode"


def _checked_line(text: str) -> str:
    """The text; ValueError where it has more than one line, or unprintable characters."""
    if text != shown(text):
        raise ValueError("is no text in one line")
    return text


def _checked_keywords(keywords: tuple[str, ...]) -> tuple[str, ...]:
    """The keywords; ValueError where they are too long in total."""
    if len("; ".join(keywords)) > LONGEST_KEYWORDS:
        raise ValueError("are too many")
    return keywords


def _checked_extension(extension: str) -> str:
    """The extension; ValueError where it is not one of stored pictures."""
    if extension not in EXTENSIONS.values():
        raise ValueError("is unknown")
    return extension


def _checked_float(value: object) -> object:
    """The value; ValueError for an integer, which the decoding process never writes here."""
    if type(value) is not float:
        raise ValueError("is no number with a point")
    return value


Side: TypeAlias = Annotated[int, Field(ge=1, le=2**31)]
ReducedSide: TypeAlias = Annotated[int, Field(ge=1, le=LONGEST_SIDE)]
Latitude: TypeAlias = Annotated[float, BeforeValidator(_checked_float), Field(ge=-90, le=90)]
Longitude: TypeAlias = Annotated[float, BeforeValidator(_checked_float), Field(ge=-180, le=180)]
Shown: TypeAlias = Annotated[str, AfterValidator(_checked_line)]


class DecodeReply(BaseModel):
    """A reply as strict JSON, without type conversions."""

    model_config = ConfigDict(strict=True, frozen=True)


class Started(DecodeReply):
    """The first message of a process: each protection of `sandbox.py` with "on", or why it is missing."""

    protection: dict[str, str]


class Failed(DecodeReply):
    """An internal fault of the decoding process."""

    fault: str


class Refused(DecodeReply):
    """A displayable reason why a picture is not decoded; `final` when retrying cannot help."""

    reason: str
    final: bool


class Inspected(DecodeReply):
    """The format of a file as its extension, or the reason why it is not an accepted picture."""

    extension: Annotated[str, AfterValidator(_checked_extension)] | None = None
    unreadable: str | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.extension is None) == (self.unreadable is None):
            raise ValueError("says both or nothing")
        return self


class DecodedParts(DecodeReply):
    """The lengths of the parts of the body, in the order of the request, and the extension of the display copy."""

    parts: tuple[NonNegativeInt, ...]
    stripped: str | None = None

    def fits(self, request: DecodeRequest, body: bytearray) -> bool:
        """Whether these are the requested parts, and match the body."""
        num_requested = request.pixels + request.thumbnail + (request.stripped is not None)
        if len(self.parts) != num_requested or sum(self.parts) != len(body):
            return False
        if request.thumbnail and self.parts[request.pixels] > LARGEST_THUMBNAIL:
            return False
        return request.stripped is None or self.stripped in (request.stripped, "jpg")

    def parts_of(self, body: bytearray) -> list[memoryview]:
        """The parts of the body."""
        return [memoryview(body)[start:end] for start, end in pairwise(accumulate(self.parts, initial=0))]


class DecodedPixels(DecodedParts):
    """Parts that begin with the picture's pixels, of the size `reduced`, and the file's metadata. `size` is that of the
    full picture."""

    size: tuple[Side, Side]
    reduced: tuple[ReducedSide, ReducedSide]
    taken_at: Annotated[FiniteFloat, BeforeValidator(_checked_float)] | None
    caption: Annotated[Shown, Field(max_length=LONGEST_CAPTION)]
    keywords: Annotated[tuple[Annotated[Shown, Field(min_length=1)], ...], AfterValidator(_checked_keywords)]
    coordinates: tuple[Latitude, Longitude] | None = None

    def fits(self, request: DecodeRequest, body: bytearray) -> bool:
        """Whether these are the requested parts, match the body, and have coordinates only if requested."""
        width, height = self.reduced
        is_permitted = request.coordinates or self.coordinates is None
        return super().fits(request, body) and is_permitted and self.parts[0] == 3 * width * height


STARTED: TypeAdapter[Started] = TypeAdapter(Started)
INSPECTED: TypeAdapter[Failed | Refused | Inspected] = TypeAdapter(Failed | Refused | Inspected)
DECODED: TypeAdapter[Failed | Refused | DecodedParts] = TypeAdapter(Failed | Refused | DecodedParts)
DECODED_PIXELS: TypeAdapter[Failed | Refused | DecodedPixels] = TypeAdapter(Failed | Refused | DecodedPixels)
