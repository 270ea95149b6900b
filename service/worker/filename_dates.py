"""Dates in file names of cameras, phones and messengers, such as IMG_20230315_153012 and IMG-20230315-WA0001. Some
write no other date, and messengers remove the one inside the file."""

import re
from datetime import UTC, datetime

FIRST_YEAR = 1990  # of digital cameras
# A day, perhaps with a time of day, not preceded by a digit nor followed by a letter or digit.
_DAY = r"(?<!\d)(?P<year>19\d\d|20\d\d)(?P<mark>[-_.]?)(?P<month>\d\d)(?P=mark)(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d)(?P<point>[-.:_]?)(?P<minute>\d\d)(?P=point)(?P<second>\d\d)(?:\d{3})?"
DATED = re.compile(rf"{_DAY}(?:(?:[-_ T.]|\s+at\s+)?{_TIME})?(?![A-Za-z0-9])")


def date_in_name(filename: str, now: float) -> float | None:
    """Unix seconds of the date in a file's name, without its folders; None if there is none before `now`.

    A time of day is taken as UTC, like that of a camera without a zone; a date alone means its midnight.
    """
    for match in DATED.finditer(filename.rpartition("/")[2]):
        parts = [int(match[name] or 0) for name in ("year", "month", "day", "hour", "minute", "second")]
        try:
            moment = datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]
        except ValueError:  # eight digits that are no date
            continue
        if moment.year >= FIRST_YEAR and moment.timestamp() <= now:
            return moment.timestamp()
    return None
