"""Sidecars, files that describe the pictures beside them: XMP of photo managers, and JSON of Google Takeout."""

import errno
import html
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from index.records import TagValue
from service.media.dates import xmp_date
from service.media.descriptions import DC, first_shown, shown, xmp_root, xmp_texts

LARGEST_SIDECAR = 2**20  # bytes; a long history of edits takes several 100 kB
PEOPLE, RATING = "{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}PersonInImage", "{http://ns.adobe.com/xap/1.0/}Rating"
RATINGS = ("1", "2", "3", "4", "5")
BROKEN = (
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RecursionError,
    ArithmeticError,
)  # by parsers, and by contents


@dataclass(frozen=True)
class Sidecar:
    """The content of a sidecar; empty values say nothing."""

    caption: str = ""
    taken_at: float | None = None
    """Seconds since 1970."""
    tags: Mapping[str, TagValue] = field(default_factory=dict)
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Tags of several values, such as keywords."""


def read_sidecar(path: Path) -> Sidecar:
    """The content of a file. Raises OSError, or ValueError with the reason in words."""
    with os.fdopen(_opened(path), "rb") as file:
        content = file.read(LARGEST_SIDECAR + 1)
    if len(content) > LARGEST_SIDECAR:
        raise ValueError(f"it has more than {LARGEST_SIDECAR >> 20} MB")
    try:
        return of_xmp(content) if path.suffix.lower() == ".xmp" else of_takeout(json.loads(content))
    except BROKEN as fault:
        raise ValueError(f"it is no valid XMP, or not from Google Takeout: {fault}") from fault


def _opened(path: Path) -> int:
    """The descriptor of a file; a link may lead to a file of somebody else, and a pipe is not waited for."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as fault:
        if fault.errno == errno.ELOOP:
            raise ValueError("it is a link") from None
        raise


def of_xmp(content: bytes) -> Sidecar:
    """The content of an XMP file."""
    root = xmp_root(content, LARGEST_SIDECAR)
    assert root is not None
    rating = next((text for text in xmp_texts(root, RATING) if text in RATINGS), None)
    return Sidecar(
        caption=first_shown(xmp_texts(root, f"{DC}description") + xmp_texts(root, f"{DC}title")),
        taken_at=xmp_date(root),
        tags={} if rating is None else {"rating": int(rating)},
        lists={"keywords": xmp_texts(root, f"{DC}subject"), "people": xmp_texts(root, PEOPLE)},
    )


def of_takeout(found: Any) -> Sidecar:
    """The content of a JSON file of Google Takeout, whose title is only the name of the picture."""
    seconds = float(found["photoTakenTime"].get("timestamp") or 0)
    return Sidecar(
        caption=shown(html.unescape(found.get("description") or "")),
        taken_at=seconds or None,  # zero where it is unknown
        tags={"favourite": "yes"} if found.get("favorited") is True else {},
        lists={"people": [shown(person.get("name") or "") for person in found.get("people") or ()]},
    )
