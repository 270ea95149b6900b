"""Requests to a decoding process, and the forms of its replies.

Nothing that it says is trusted: a reply of another form, or one that does not fit its request, is none.
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
    """Asks for the format of a file, told from its header."""

    path: str
    do: Literal["inspect"] = "inspect"


@dataclass(frozen=True, kw_only=True)
class DecodeRequest:
    """Asks for parts of a picture: the `pixels` for the detector, with what the file says of itself, its place only
    with `coordinates`; a `thumbnail`; the file to show, where `stripped` is the extension of the original."""

    path: str
    pixels: bool = False
    thumbnail: bool = False
    stripped: str | None = None
    coordinates: bool = False
    do: Literal["decode"] = "decode"


def _checked_line(text: str) -> str:
    """The text; ValueError where it has more than one line, or what cannot be shown."""
    if text != shown(text):
        raise ValueError("is no text in one line")
    return text


def _checked_keywords(keywords: tuple[str, ...]) -> tuple[str, ...]:
    """The keywords; ValueError where they are too long together."""
    if len("; ".join(keywords)) > LONGEST_KEYWORDS:
        raise ValueError("are too many")
    return keywords


def _checked_extension(extension: str) -> str:
    """The extension; ValueError for one that no picture is stored with."""
    if extension not in EXTENSIONS.values():
        raise ValueError("is unknown")
    return extension


def _checked_float(value: object) -> object:
    """The value; ValueError for a whole number, which no process writes in such a place."""
    if type(value) is not float:
        raise ValueError("is no number with a point")
    return value


Side: TypeAlias = Annotated[int, Field(ge=1, le=2**31)]
ReducedSide: TypeAlias = Annotated[int, Field(ge=1, le=LONGEST_SIDE)]
Latitude: TypeAlias = Annotated[float, BeforeValidator(_checked_float), Field(ge=-90, le=90)]
Longitude: TypeAlias = Annotated[float, BeforeValidator(_checked_float), Field(ge=-180, le=180)]
Shown: TypeAlias = Annotated[str, AfterValidator(_checked_line)]


class DecodeReply(BaseModel):
    """JSON whose values have the very types that they must have."""

    model_config = ConfigDict(strict=True, frozen=True)


class Started(DecodeReply):
    """The first words of a process: each protection of `sandbox.py` with "on", or why it is missing."""

    protection: dict[str, str]


class Failed(DecodeReply):
    """A fault of the process's own program."""

    fault: str


class Refused(DecodeReply):
    """The reason why a picture is not decoded, which may be shown; `final` when trying again cannot help."""

    reason: str
    final: bool


class Inspected(DecodeReply):
    """The format of a file by its extension, or the reason why it is no picture that is taken in."""

    extension: Annotated[str, AfterValidator(_checked_extension)] | None = None
    unreadable: str | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.extension is None) == (self.unreadable is None):
            raise ValueError("says both or nothing")
        return self


class DecodedParts(DecodeReply):
    """The lengths of the parts that the body has, in the order of a request's, and the file to show's extension."""

    parts: tuple[NonNegativeInt, ...]
    stripped: str | None = None

    def fits(self, request: DecodeRequest, body: bytearray) -> bool:
        """Whether these are the parts that were asked for, and the body's."""
        wanted = request.pixels + request.thumbnail + (request.stripped is not None)
        if len(self.parts) != wanted or sum(self.parts) != len(body):
            return False
        if request.thumbnail and self.parts[request.pixels] > LARGEST_THUMBNAIL:
            return False
        return request.stripped is None or self.stripped in (request.stripped, "jpg")

    def parts_of(self, body: bytearray) -> list[memoryview]:
        """The parts of the body."""
        return [memoryview(body)[start:end] for start, end in pairwise(accumulate(self.parts, initial=0))]


class DecodedPixels(DecodedParts):
    """Parts of which the first are the pixels of the picture, as large as `reduced` says; and what the file holds of
    itself. `size` is the full picture's."""

    size: tuple[Side, Side]
    reduced: tuple[ReducedSide, ReducedSide]
    taken_at: Annotated[FiniteFloat, BeforeValidator(_checked_float)] | None
    caption: Annotated[Shown, Field(max_length=LONGEST_CAPTION)]
    keywords: Annotated[tuple[Annotated[Shown, Field(min_length=1)], ...], AfterValidator(_checked_keywords)]
    coordinates: tuple[Latitude, Longitude] | None = None

    def fits(self, request: DecodeRequest, body: bytearray) -> bool:
        """Whether these are the parts that were asked for, and the body's, with a place only where it was asked for."""
        width, height = self.reduced
        is_asked = request.coordinates or self.coordinates is None
        return super().fits(request, body) and is_asked and self.parts[0] == 3 * width * height


STARTED: TypeAdapter[Started] = TypeAdapter(Started)
INSPECTED: TypeAdapter[Failed | Refused | Inspected] = TypeAdapter(Failed | Refused | Inspected)
DECODED: TypeAdapter[Failed | Refused | DecodedParts] = TypeAdapter(Failed | Refused | DecodedParts)
DECODED_PIXELS: TypeAdapter[Failed | Refused | DecodedPixels] = TypeAdapter(Failed | Refused | DecodedPixels)
