"""Errors that a client raises."""

from collections.abc import Mapping
from typing import Any

UNAUTHORIZED = 401
TOO_LARGE = 413


class RegardError(Exception):
    """A failed request; the message says why, and what to do."""


class Misconfigured(RegardError, ValueError):
    """An address, API key or argument that makes no valid request."""


class ServerUnreachable(RegardError):
    """No server answers at that address, or not in time.

    `arrived` says whether the request may have reached a server, `hangs` whether the answer timed out.
    """

    def __init__(self, message: str, arrived: bool = False, hangs: bool = False) -> None:
        self.arrived, self.hangs = arrived, hangs
        super().__init__(message)


class UnexpectedAnswer(RegardError):
    """An answer that Regard would not give, so something else is at that address."""


class JobUnfinished(RegardError):
    """An ingestion job was not done within the timeout. The server goes on with it."""


class RequestRefused(RegardError):
    """The server refused a request. The message is its reason.

    `status` is the HTTP status, `document` the problem document, and `instance` names the request in the server's log.
    """

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        self.status = status
        self.document = dict(document)
        advice = " Give it as api_key, or set REGARD_API_KEY." if status == UNAUTHORIZED else ""
        super().__init__(self.reason + advice)

    def __reduce__(self) -> tuple[type["RequestRefused"], tuple[int, dict[str, Any]]]:
        """The parts to rebuild the error from, so that it can be pickled."""
        return type(self), (self.status, self.document)

    @property
    def reason(self) -> str:
        """The server's words, without advice."""
        words = self.document.get("detail") or self.document.get("title")
        cause = ": the request is larger than a proxy before it takes" if self.status == TOO_LARGE else ""
        return str(words or f"The server answered with status {self.status}{cause}.")

    @property
    def instance(self) -> str | None:
        """The name of the request in the server's log; None if a proxy in front of it answered."""
        name = self.document.get("instance")
        return name if isinstance(name, str) else None

    @property
    def kind(self) -> str | None:
        """The last part of the problem's type, such as `not-found`."""
        name = self.document.get("type")
        return name.rpartition(":")[2] if isinstance(name, str) else None
