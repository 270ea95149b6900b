"""A request as a value, and the reading of its answer; without network access."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Generic, TypeVar, cast
from urllib.parse import quote

import httpx

from regard_client.errors import Misconfigured, RequestRefused, ServerUnreachable, UnexpectedAnswer
from regard_client.pictures import Content
from regard_client.sent_file import SentFile

A = TypeVar("A")
NAMES_OF_FOLDERS = ("", ".", "..")  # as a part, these would change the path of a request


@dataclass(frozen=True)
class FilePart:
    """A file in a form."""

    field: str
    name: str
    content: Content


@dataclass(frozen=True, kw_only=True)
class Call(Generic[A]):
    """A request, and `read`, which turns a successful answer into the result."""

    method: str
    path: str
    read: Callable[[httpx.Response], A]
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: Any = None  # sent as JSON
    form: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[FilePart] = ()
    into: Path | None = None  # a file for the content of a successful answer, written as it comes
    again: bool = True  # whether it may be sent again if the server is busy
    twice: bool = True  # whether it may be sent again if its answer was lost, since the server may have done it

    @contextmanager
    def request(self, client: httpx.Client | httpx.AsyncClient) -> Iterator[httpx.Request]:
        """The request, to be sent once; its files are opened anew for each attempt.

        Raises Misconfigured for a closed client, and for a body that cannot be written as JSON.
        """
        if client.is_closed:
            raise Misconfigured("this client was closed: make another one")
        with ExitStack() as files:
            parts: list[tuple[str, tuple[str | None, str | bytes | SentFile]]] = [
                (name, (None, value)) for name, value in self.form.items()
            ]
            for part in self.files:
                content = part.content
                opened = content if isinstance(content, bytes) else files.enter_context(SentFile(Path(content)))
                parts.append((part.field, (part.name, opened)))
            try:
                request = client.build_request(
                    self.method, self.path, params=self.query or None, json=self.body, files=cast(Any, parts) or None
                )
            except (TypeError, ValueError) as fault:
                raise Misconfigured(f"this cannot be sent: {fault}") from fault
            yield request

    def result(self, answer: httpx.Response, url: str) -> A:
        """The content of a successful answer. Raises a RegardError for any other."""
        if answer.is_redirect:
            target = answer.headers.get("location", "nowhere")
            raise UnexpectedAnswer(f"{url} sends on to {target}: give the client the address that is meant")
        if not answer.is_success:
            raise refusal(answer)
        try:
            return self.read(answer)
        except ValueError as fault:
            raise UnexpectedAnswer(f"{url} does not answer {self.path} as Regard does: {fault}") from fault


def part_of_path(text: str) -> str:
    """An id or a name quoted as one part of a path."""
    if text in NAMES_OF_FOLDERS:
        raise Misconfigured(f"{text!r} is neither an id nor a name")
    return quote(text, safe="")


def json_as(kind: type[A], besides: str = "") -> Callable[[httpx.Response], A]:
    """A reader of JSON objects with the TypedDict's required fields, except `besides`, which older servers omit."""
    required: frozenset[str] = kind.__required_keys__ - {besides}  # type: ignore[attr-defined]

    def read(answer: httpx.Response) -> A:
        document = answer.json()
        missing = sorted(required - document.keys()) if isinstance(document, dict) else sorted(required)
        if missing:
            raise ValueError(f"there is no {', no '.join(missing)}")
        return cast(A, document)

    return read


def content_of(answer: httpx.Response) -> bytes:
    """The bytes of an answer, such as a picture."""
    return answer.content


@contextmanager
def saved_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that has this path once it is complete. Raises OSError where it cannot be written."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def nothing(answer: httpx.Response) -> None:
    """The result of answers without content."""


def refusal(answer: httpx.Response) -> RequestRefused:
    """The error for an answer that is not successful."""
    return RequestRefused(answer.status_code, _problem(answer))


def kind_of(answer: httpx.Response) -> str | None:
    """The kind of an answer's problem; None if it has none."""
    return None if answer.is_success else refusal(answer).kind


def _problem(answer: httpx.Response) -> dict[str, Any]:
    """The problem document of an answer; empty if something other than Regard answered."""
    try:
        document = answer.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


@contextmanager
def unreachable(url: str) -> Iterator[None]:
    """Any failure of the connection turned into ServerUnreachable."""
    try:
        yield
    except httpx.TimeoutException:
        raise ServerUnreachable(f"{url} did not answer in time", arrived=True, hangs=True) from None
    except httpx.RequestError as fault:
        reason, arrived = f" ({fault})" if str(fault) else "", not isinstance(fault, httpx.ConnectError)
        raise ServerUnreachable(f"nobody answers at {url}{reason}; start `regard serve`", arrived) from None
