"""The date when a picture was taken, from the metadata of its file.

EXIF comes first: the time of the exposure, or else of the digitization, which scanners write. XMP is next, which
programs write into files without EXIF. Modification times (EXIF DateTime, xmp:ModifyDate) are ignored. Runs in
decode_worker; XMP is also read from files beside pictures, by the command line.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from xml.etree.ElementTree import Element

from service.media.descriptions import xmp_texts

# Tags of dates and of their zones: DateTimeOriginal and OffsetTimeOriginal, then those of DateTimeDigitized.
EXIF_DATES = ((0x9003, 0x9011), (0x9004, 0x9012))
XMP_DATES = (
    "{http://ns.adobe.com/exif/1.0/}DateTimeOriginal",
    "{http://ns.adobe.com/photoshop/1.0/}DateCreated",
    "{http://ns.adobe.com/xap/1.0/}CreateDate",
)
ZONE = r"[+-](?:0\d|1[0-4]):[0-5]\d"
EXIF_DATE = re.compile(r"(\d{4}):(\d\d):(\d\d) (\d\d:\d\d:\d\d)", re.ASCII)
# Darktable writes colons and a space, as in EXIF.
XMP_DATE = re.compile(
    rf"(\d{{4}})(?:[-:](\d\d)(?:[-:](\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(?:\.\d*)?(Z|{ZONE})?)?)?)?", re.ASCII
)


def exif_date(tags: Mapping[int, Any]) -> float | None:
    """The date in EXIF tags in unix seconds; without a valid zone it counts as UTC."""
    for date, zone in EXIF_DATES:
        match = EXIF_DATE.match(str(tags.get(date, "")))
        offset = re.match(ZONE, str(tags.get(zone, "")), re.ASCII)
        if match:
            text = "{}-{}-{}T{}".format(*match.groups()) + (offset.group() if offset else "+00:00")
            if (moment := _seconds(text)) is not None:
                return moment
    return None


def xmp_date(root: Element | None) -> float | None:
    """The date in an XMP packet in unix seconds; a year, month or day counts as its beginning, without a zone as
    UTC."""
    if root is None:
        return None
    for name in XMP_DATES:
        for text in xmp_texts(root, name):
            if (match := XMP_DATE.fullmatch(text.strip())) is None:
                continue
            year, month, day, minutes, seconds, zone = match.groups()
            moment = _seconds(
                f"{year}-{month or '01'}-{day or '01'}T{minutes or '00:00'}{seconds or ':00'}{zone or '+00:00'}"
            )
            if moment is not None:
                return moment
    return None


def _seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):  # such as 0000-00-00 from a camera without a clock, or one before year 1 in UTC
        return None
