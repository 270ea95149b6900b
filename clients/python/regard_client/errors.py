"""Errors that a client raises."""

from collections.abc import Mapping
from typing import Any

UNAUTHORIZED = 401


class RegardError(Exception):
    """A request did not bring what was asked for; the message says why and what to do."""


class Misconfigured(RegardError, ValueError):
    """An address, API key or argument that no request could be made of."""


class ServerUnreachable(RegardError):
    """No server answers at that address, or not in time.

    `arrived` tells whether the request may have reached one, `hangs` whether it was waited for in vain.
    """

    def __init__(self, message: str, arrived: bool = False, hangs: bool = False) -> None:
        self.arrived, self.hangs = arrived, hangs
        super().__init__(message)


class UnexpectedAnswer(RegardError):
    """Whoever answers at that address does not answer as Regard does."""


class JobUnfinished(RegardError):
    """An ingestion job was not done within the time that was given to it. It goes on."""


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
        """Goes from process to process as it is."""
        return type(self), (self.status, self.document)

    @property
    def reason(self) -> str:
        """The server's words, without advice."""
        said = self.document.get("detail") or self.document.get("title")
        return str(said or f"The server answered with status {self.status}.")

    @property
    def instance(self) -> str | None:
        """The name of the request in the server's log; None where something before the server answered."""
        named = self.document.get("instance")
        return named if isinstance(named, str) else None

    @property
    def kind(self) -> str | None:
        """The last part of the problem's type, such as `not-found`."""
        named = self.document.get("type")
        return named.rpartition(":")[2] if isinstance(named, str) else None
