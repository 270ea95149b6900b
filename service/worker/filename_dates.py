"""Dates in the names that cameras, phones and messengers give to files, such as IMG_20230315_153012 and
IMG-20230315-WA0001: some write no other, and messengers take the one inside the file away.
"""

import re
from datetime import UTC, datetime

FIRST_YEAR = 1990  # of digital cameras
# A day, perhaps with a time of day, which no digit precedes and neither letter nor digit follows.
_DAY = r"(?<!\d)(?P<year>19\d\d|20\d\d)(?P<mark>[-_.]?)(?P<month>\d\d)(?P=mark)(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d)(?P<point>[-.:_]?)(?P<minute>\d\d)(?P=point)(?P<second>\d\d)(?:\d{3})?"
DATED = re.compile(rf"{_DAY}(?:(?:[-_ T.]|\s+at\s+)?{_TIME})?(?![A-Za-z0-9])")


def date_in_name(filename: str, now: float) -> float | None:
    """Unix seconds of the date in a file's name, without its folders; None where there is none before `now`.

    A time of day is taken as UTC, as that of a camera without a zone; a day begins then.
    """
    for found in DATED.finditer(filename.rpartition("/")[2]):
        parts = [int(found[name] or 0) for name in ("year", "month", "day", "hour", "minute", "second")]
        try:
            moment = datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]
        except ValueError:  # a number of eight digits that is no date
            continue
        if moment.year >= FIRST_YEAR and moment.timestamp() <= now:
            return moment.timestamp()
    return None
