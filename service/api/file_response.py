"""Files as responses, whole or in part."""

import os
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import IO

from fastapi import Request, Response
from fastapi.responses import FileResponse
from starlette.types import Receive, Scope, Send

from service.errors import PreconditionFailed, RangeNotSatisfiable

ONE_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")


class PartialFileResponse(FileResponse):
    """An open file, or the one part of it that the header Range asks for; several parts at once are answered whole.

    It is sent as it was opened, also where its name is erased meanwhile, and closed then.
    """

    def __init__(self, file: IO[bytes], headers: Mapping[str, str], media_type: str, filename: str | None) -> None:
        """Browsers save it by the name `filename` where one is given, and show it otherwise."""
        status, self._file = os.fstat(file.fileno()), file
        opened = f"/proc/self/fd/{file.fileno()}"  # which opens the file anew, whatever became of its name
        super().__init__(opened, headers=headers, media_type=media_type, filename=filename, stat_result=status)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ranges = [value.decode("latin-1") for name, value in scope["headers"] if name == b"range"]
        if len(ranges) != 1 or not _is_range(ranges[0]):
            scope = {**scope, "headers": [one for one in scope["headers"] if one[0] != b"range"]}
        with self._file:
            await super().__call__(scope, receive, send)


def not_modified(request: Request, headers: Mapping[str, str]) -> Response | None:
    """The answer to a client whose copy has the tag in `headers`, by its If-None-Match; None for any other.

    Raises what `check_preconditions` does, which comes first (RFC 9110, 13.2.2).
    """
    check_preconditions(request, headers)
    given = ",".join(request.headers.getlist("if-none-match"))
    is_current = any(one.strip().removeprefix("W/") in ("*", headers["ETag"]) for one in given.split(","))
    return Response(status_code=304, headers=dict(headers)) if is_current else None


def check_preconditions(request: Request, headers: Mapping[str, str]) -> None:
    """PreconditionFailed where the request asks for another file than the one with the tag in `headers` (If-Match), or
    for one that was not changed since a time (If-Unmodified-Since), and the date in `headers` is later."""
    if given := request.headers.getlist("if-match"):
        wanted = [one.strip() for one in ",".join(given).split(",")]
        if not {"*", headers["ETag"]}.intersection(wanted):  # a weak tag matches nothing (RFC 9110, 13.1.1)
            raise PreconditionFailed(f"The file is another one: its ETag is {headers['ETag']}.")
    elif changed_at := headers.get("Last-Modified"):
        since = _seconds(request.headers.get("if-unmodified-since", ""))
        if since is not None and parsedate_to_datetime(changed_at).timestamp() > since:
            raise PreconditionFailed(f"The file was changed since: its date is {changed_at}.")


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
    since = _seconds(request.headers.get("if-modified-since", ""))
    return since is not None and "if-none-match" not in request.headers and int(changed_at) <= since


def _seconds(date: str) -> float | None:
    """A date of a header as seconds since 1970; None where it is no date, which is to be ignored (RFC 9110, 13.1.3)."""
    try:
        parsed = parsedate_to_datetime(date)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()  # none where the zone is `-0000`
    except (ValueError, OverflowError):
        return None


def _is_range(text: str) -> bool:
    """Whether it is one range whose ends are in order; others are to be ignored (RFC 9110, 14.2)."""
    match = ONE_RANGE.fullmatch(text)
    if match is None or match.groups() == ("", ""):
        return False
    first, last = match.groups()
    return not first or not last or int(first) <= int(last)
