"""The `next` of a page of pictures or failures, by which the following page begins where this one ended."""

import re

from index.failures import FailureKey
from index.records import Failure, Image, ImageOrder, ListPlace

UNIX_SECONDS = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d\d?)?")


def cursor_after(image: Image, order: ImageOrder) -> str:
    """The cursor of the page behind a picture. In an order by date it holds the date: the picture's may change before
    the next page is asked for, and the list shall not jump with it."""
    if order != "date":
        return image.image_id
    return f"{image.image_id}@{'' if image.taken_at is None else repr(float(image.taken_at))}"


def place_of(cursor: str) -> ListPlace:
    """The place that a cursor stands for; a picture's id alone stands for where that is now. ValueError."""
    image_id, is_dated, date = cursor.partition("@")
    if not is_dated:
        return ListPlace(image_id)
    if date and not UNIX_SECONDS.fullmatch(date):
        raise ValueError("this is no `next` of a page")
    return ListPlace(image_id, float(date) if date else None)


def cursor_after_failure(failure: Failure) -> str:
    """The cursor of the page behind a failure, also where that is mended meanwhile."""
    return f"{failure.image_id}@{failure.added_at!r}"


def failure_place(cursor: str) -> FailureKey:
    """The place that such a cursor stands for. ValueError."""
    image_id, _, added_at = cursor.partition("@")
    if not UNIX_SECONDS.fullmatch(added_at):
        raise ValueError("this is no `next` of a page")
    return -float(added_at), image_id
