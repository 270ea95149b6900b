"""Cursors of lists of pictures, failures and jobs: the `next` of a page, after which the following page begins."""

import re

from index.catalog.ingestion.failures import FailureKey
from index.catalog.ingestion.jobs import JobKey
from index.records import Failure, Image, ImageOrder, JobStatus, ListPlace

LONGEST_CURSOR = 128
UNIX_SECONDS = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d\d?)?")


def cursor_after(image: Image, order: ImageOrder) -> str:
    """The cursor of the page after a picture. It holds the time when the picture was added, since it may be erased
    before the next page is read, and in an order by date also its date, since an edit must not make the list jump."""
    taken = "" if image.taken_at is None else repr(float(image.taken_at))
    dated = f"@{taken}" if order == "date" else ""
    return f"{image.image_id}{dated}~{float(image.added_at)!r}"


def place_of(cursor: str) -> ListPlace:
    """The list position of a cursor; a picture's id alone means its current position. Raises ValueError for any other
    text."""
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
    """The cursor of the page after a failure, which remains valid when the failure is resolved."""
    return f"{failure.image_id}@{failure.added_at!r}"


def cursor_after_job(job: JobStatus) -> str:
    """The cursor of the page after a job, which remains valid when the job is forgotten."""
    return f"{job.job_id}@{job.created_at!r}"


def key_of(cursor: str) -> FailureKey | JobKey:
    """The list position of a failure's or a job's cursor. Raises ValueError for any other text."""
    identifier, _, seconds = cursor.partition("@")
    if not UNIX_SECONDS.fullmatch(seconds):
        raise ValueError("this is no `next` of a page")
    return -float(seconds), identifier
