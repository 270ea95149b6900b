"""Files as responses, whole or in part."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from fastapi import Request, Response
from fastapi.responses import FileResponse
from starlette.types import Receive, Scope, Send

from service.errors import RangeNotSatisfiable

ONE_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")


class PartialFileResponse(FileResponse):
    """A file, or the one part of it that the header Range asks for; several parts at once are answered whole."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ranges = [value.decode("latin-1") for name, value in scope["headers"] if name == b"range"]
        if len(ranges) != 1 or not _is_range(ranges[0]):
            scope = {**scope, "headers": [one for one in scope["headers"] if one[0] != b"range"]}
        await super().__call__(scope, receive, send)


def not_modified(request: Request, headers: Mapping[str, str]) -> Response | None:
    """The answer to a client whose copy has the tag in `headers`, by its If-None-Match; None for any other."""
    given = ",".join(request.headers.getlist("if-none-match"))
    is_current = any(one.strip().removeprefix("W/") in ("*", headers["ETag"]) for one in given.split(","))
    return Response(status_code=304, headers=dict(headers)) if is_current else None


def check_range(request: Request, headers: Mapping[str, str], size: int) -> None:
    """RangeNotSatisfiable where the request asks for one part of a file of `size` bytes that is not in it.

    A client whose copy (If-Range) is not the file with the tag or date in `headers` is sent all of it instead.
    """
    given = request.headers.getlist("range")
    copy = request.headers.get("if-range", headers["etag"])
    if len(given) != 1 or not _is_range(given[0]) or copy not in (headers["etag"], headers["last-modified"]):
        return
    match = ONE_RANGE.fullmatch(given[0])
    assert match is not None
    first, last = match.groups()
    if (int(first) if first else size - int(last)) >= size:
        raise RangeNotSatisfiable(size)


def is_unchanged(request: Request, changed_at: float) -> bool:
    """Whether the client's copy is the file as it is, by its If-Modified-Since, which counts without If-None-Match."""
    given = request.headers.get("if-modified-since")
    if given is None or "if-none-match" in request.headers:
        return False
    try:
        return int(changed_at) <= parsedate_to_datetime(given).timestamp()
    except (ValueError, OverflowError):  # no date, which is to be ignored (RFC 9110, 13.1.3)
        return False


def _is_range(text: str) -> bool:
    """Whether it is one range whose ends are in order; others are to be ignored (RFC 9110, 14.2)."""
    match = ONE_RANGE.fullmatch(text)
    if match is None or match.groups() == ("", ""):
        return False
    first, last = match.groups()
    return not first or not last or int(first) <= int(last)
