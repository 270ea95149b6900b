"""The `next` of a page of pictures or failures, by which the following page begins where this one ended."""

import re

from index.catalog.ingestion.failures import FailureKey
from index.records import Failure, Image, ImageOrder, ListPlace

LONGEST_CURSOR = 128
UNIX_SECONDS = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d\d?)?")


def cursor_after(image: Image, order: ImageOrder) -> str:
    """The cursor of the page behind a picture. It holds when that was taken in, since the picture may be erased before
    the next page is asked for, and in an order by date its date, which may change: the list shall not jump with it."""
    taken = "" if image.taken_at is None else repr(float(image.taken_at))
    dated = f"@{taken}" if order == "date" else ""
    return f"{image.image_id}{dated}~{float(image.added_at)!r}"


def place_of(cursor: str) -> ListPlace:
    """The place that a cursor stands for; a picture's id alone stands for where that is now. Raises ValueError for any
    other text."""
    rest, _, added = cursor.partition("~")
    image_id, is_dated, taken = rest.partition("@")
    for seconds in (added, taken):
        if seconds and not UNIX_SECONDS.fullmatch(seconds):
            raise ValueError("this is no `next` of a page")
    added_at = float(added) if added else None
    if not is_dated:
        return ListPlace(image_id, added_at=added_at)
    return ListPlace(image_id, float(taken) if taken else None, added_at)


def cursor_after_failure(failure: Failure) -> str:
    """The cursor of the page behind a failure, also where that is mended meanwhile."""
    return f"{failure.image_id}@{failure.added_at!r}"


def failure_place(cursor: str) -> FailureKey:
    """The place that such a cursor stands for. Raises ValueError for any other text."""
    image_id, _, added_at = cursor.partition("@")
    if not UNIX_SECONDS.fullmatch(added_at):
        raise ValueError("this is no `next` of a page")
    return -float(added_at), image_id
