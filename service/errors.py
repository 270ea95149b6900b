"""Mistakes of the user of a command, and problems of HTTP requests, each with its status.

`service/cli/main.py` shows a UserError in one line; `service/api/problem_handlers.py` turns a Problem into a problem
document.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar


class UserError(Exception):
    """A mistake that the user of a command can correct: a file, an argument, a setting. The message says how."""


class Misconfigured(UserError, ValueError):
    """Settings that contradict each other or the stored data; the message says what to change."""


@contextmanager
def user_input(source: Path | None = None) -> Iterator[None]:
    """Turn a ValueError of the block into a UserError, naming `source` where the message does not.

    Only for reading files and values given by a user: elsewhere a ValueError is a bug.
    """
    try:
        yield
    except UserError:
        raise
    except ValueError as fault:
        message = str(fault)
        is_named = source is None or str(source) in message
        raise UserError(message if is_named else f"{source}: {message}") from fault


class Problem(Exception):
    """The request could not be answered.

    The detail is safe and useful to show; `extra` becomes further members of the problem document. `retry_after` is the
    number of seconds after which the request may be repeated.
    """

    status: ClassVar[int] = 500
    kind: ClassVar[str] = "internal-error"
    title: ClassVar[str] = "Something failed inside the server"

    def __init__(
        self, detail: str, *, headers: Mapping[str, str] | None = None, retry_after: int | None = None, **extra: Any
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.headers = dict(headers or {})
        self.extra = extra
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)
            self.extra["retry_after"] = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        """The pickled form, restored without calling the constructor."""
        return _restored_problem, (type(self), self.args, vars(self))

    def document(self, instance: str) -> dict[str, Any]:
        """The problem document of RFC 9457."""
        return {
            "type": f"urn:regard:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            **self.extra,
        }


def _restored_problem(kind: type[Problem], arguments: tuple[Any, ...], fields: Mapping[str, Any]) -> Problem:
    problem = kind.__new__(kind, *arguments)
    vars(problem).update(fields)
    return problem


class BadRequest(Problem):
    """The body cannot be read at all."""

    status = 400
    kind = "bad-request"
    title = "The request cannot be read"


class InvalidRequest(Problem):
    """A field of the request cannot be used; `errors` names each field and what to do."""

    status = 422
    kind = "invalid-request"
    title = "The request cannot be used as it is"

    def __init__(self, detail: str, errors: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(detail, errors=[dict(error) for error in errors])

    @classmethod
    def field(cls, name: str, problem: str) -> "InvalidRequest":
        """A problem with one field."""
        return cls(f"{name}: {problem}", [{"field": name, "problem": problem}])


class NothingAccepted(Problem):
    """No file of an upload was accepted; `rejected` has a reason for each."""

    status = 422
    kind = "nothing-accepted"
    title = "None of the files could be accepted"

    def __init__(self, rejected: Iterable[Mapping[str, str]]) -> None:
        listed = [dict(file) for file in rejected]
        first = f"; the first: {listed[0]['problem'].rstrip('.')}" if listed else ""
        super().__init__(
            f"0 of {len(listed)} files accepted{first}." if listed else "No file in the field `images`.",
            rejected=listed,
        )


class UnreadablePicture(Problem):
    """The bytes are not a picture that can be decoded within the limits."""

    status = 422
    kind = "unreadable-picture"
    title = "The picture cannot be read"


class Unauthenticated(Problem):
    """The request needs an API key and has none."""

    status = 401
    kind = "no-key"
    title = "An API key is needed"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": 'Bearer realm="regard"'})


class InvalidKey(Unauthenticated):
    """The API key is unknown, malformed, revoked or expired."""

    kind = "invalid-key"
    title = "The API key is not valid"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.headers["WWW-Authenticate"] += ', error="invalid_token"'


class Forbidden(Problem):
    """The API key does not allow this; `needed` says which permission does."""

    status = 403
    kind = "forbidden"
    title = "The API key does not allow this"

    def __init__(self, detail: str, needed: str) -> None:
        super().__init__(detail, needed=needed)


class NotFound(Problem):
    """There is no such picture, job or route."""

    status = 404
    kind = "not-found"
    title = "There is nothing here"

    @classmethod
    def picture(cls, image_id: str) -> "NotFound":
        """A picture that is not in the collection."""
        return cls(f"There is no picture {image_id}.")


class UnknownModel(Problem):
    """No model of this server has that name."""

    status = 404
    kind = "unknown-model"
    title = "There is no model of this name"

    def __init__(self, name: str, known: Iterable[str], advice: str = "") -> None:
        """`advice` says how the model can be made available, if it can."""
        listed = list(known)
        message = advice or f"No model is called {name!r}."
        super().__init__(f"{message} Known: {', '.join(listed)}.", known=listed)


class MethodNotAllowed(Problem):
    """The route exists, with other methods."""

    status = 405
    kind = "method-not-allowed"
    title = "This method is not allowed here"


class Conflict(Problem):
    """The request is valid, but the present state does not allow it."""

    status = 409
    kind = "conflict"
    title = "The present state does not allow this"


class ViewNotBuilt(Conflict):
    """A known model whose view does not exist yet; `build` gives its progress."""

    kind = "view-not-built"
    title = "This model is known but cannot search yet"


class FeaturesOnly(Conflict):
    """The data directory holds features made elsewhere, and there is no detector for pictures here."""

    kind = "features-only"
    title = "This collection holds features alone"


class ReadOnlyCollection(Conflict):
    """The data directory is not writable: only searches are possible."""

    kind = "read-only"
    title = "This collection can only be read"


class SlowRequest(Problem):
    """The request, or a part of it, arrived too slowly."""

    status = 408
    kind = "request-timeout"
    title = "The request came too slowly"


class UnsupportedEncoding(Problem):
    """The body is compressed, which is not supported."""

    status = 415
    kind = "unsupported-encoding"
    title = "The body may not be encoded"


class TooLarge(Problem):
    """The body is over its limit; reading stopped there."""

    status = 413
    kind = "too-large"
    title = "The request is too large"


class RateLimited(Problem):
    """The API key exceeded its rate limit; `Retry-After` says when to come back."""

    status = 429
    kind = "rate-limited"
    title = "Too many requests by this API key"


class PreconditionFailed(Problem):
    """The file is not the one that the request names, or has changed since."""

    status = 412
    kind = "precondition-failed"
    title = "The file is another one"


class RangeNotSatisfiable(Problem):
    """The requested part lies beyond the end of the file."""

    status = 416
    kind = "range-not-satisfiable"
    title = "The file has no such part"

    def __init__(self, size: int) -> None:
        super().__init__(f"The file has {size} bytes.", headers={"Content-Range": f"bytes */{size}"})


class UnknownHost(Problem):
    """The request is addressed to a host name that this service does not serve."""

    status = 421
    kind = "unknown-host"
    title = "This service does not answer under this name"


class CrossSiteRequest(Problem):
    """A page of another site sent the request through a user's browser, without the user's intent."""

    status = 403
    kind = "cross-site-request"
    title = "Pages of other sites may not use this service"


class DiskFull(Problem):
    """The disk has no room for the upload; `Retry-After` says when to try again."""

    status = 507
    kind = "disk-full"
    title = "The disk of the server is full"


class NotReady(Problem):
    """A component that the answer needs is not available at present."""

    status = 503
    kind = "not-ready"
    title = "The service is not ready"


class ModelNotLoaded(Problem):
    """The weights of a known model cannot be read; other models still answer."""

    status = 503
    kind = "model-not-loaded"
    title = "This model cannot be loaded"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The weights of {name} cannot be read any more as they were when the service started; its log says what is"
            " wrong with them. Other models answer. Whoever runs the service puts the files right or starts it again.",
            model=name,
        )


class Overloaded(Problem):
    """More work is waiting than the queue accepts; `Retry-After` says when to come back."""

    status = 503
    kind = "overloaded"
    title = "Too much work is waiting"
