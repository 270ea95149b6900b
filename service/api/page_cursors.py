"""The `next` of a page of pictures, by which the following page begins where this one ended."""

import re

from index.records import Image, ImageOrder, ListPlace

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
