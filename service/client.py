"""A small typed HTTP client of a Regard server."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel, SecretStr, ValidationError

from service.api.schemas.resources import (
    FailuresAnswer,
    ImageInfo,
    ImageListed,
    ImagesAnswer,
    IngestAnswer,
    JobAnswer,
    JobsAnswer,
    ModelsAnswer,
    RegionsAnswer,
    RetryAnswer,
    TagsAnswer,
)
from service.api.schemas.results import ImageAnswer, TextAnswer
from service.auth.api_keys import check_key_form
from service.errors import UserError
from service.settings import ClientSettings

A = TypeVar("A", bound=BaseModel)

TIMEOUT_S = 120.0  # for one answer; a large upload takes its time
MAX_BATCH_FILES = 32
MAX_BATCH_BYTES = 64 * 2**20
MAX_SENDS = 20
UNAUTHORIZED = 401


class RequestRefused(UserError):
    """The server refused a request; the message is its reason, `document` its problem document."""

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        message = str(document.get("detail") or document.get("title") or f"status {status}")
        super().__init__(f"{message} Commands read it from REGARD_API_KEY." if status == UNAUTHORIZED else message)
        self.status = status
        self.document = dict(document)


class ServerUnreachable(UserError):
    """No server answers at that address, or not in time."""


class Client:
    """Sends requests to one server; again, after the time that it names, where it or the API key is overloaded."""

    def __init__(
        self,
        url: str,
        sleep: Callable[[float], None] = time.sleep,
        api_key: SecretStr | None = None,
        notify: Callable[[str], None] = lambda message: None,
    ) -> None:
        """`api_key` is sent in a header with each request; `notify` is told what is waited for.

        UserError where `api_key` cannot be a key, or `url` no address.
        """
        self.url = server_url(url)
        headers = {}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {check_key_form(api_key.get_secret_value(), 'REGARD_API_KEY')}"
        self._client = httpx.Client(base_url=self.url, timeout=TIMEOUT_S, headers=headers)
        self._sleep = sleep
        self._notify = notify

    @classmethod
    def from_environment(
        cls,
        url: str | None = None,
        api_key: SecretStr | None = None,
        notify: Callable[[str], None] = lambda message: None,
    ) -> Self:
        """A client with the address of REGARD_URL and the API key of REGARD_API_KEY, where no others are given."""
        settings = ClientSettings()
        return cls(url or settings.url, api_key=api_key or settings.api_key, notify=notify)

    def ingest(
        self, files: Sequence[tuple[str, Path]], manifest: Mapping[str, Mapping[str, Any]] | None = None
    ) -> IngestAnswer:
        """Send (name, file) pairs in one request; the manifest is by those names."""
        with ExitStack() as open_files:
            parts: list[tuple[str, Any]] = [
                ("images", (name, open_files.enter_context(path.open("rb")))) for name, path in files
            ]
            if manifest:
                parts.append(("manifest", (None, json.dumps(manifest))))
            return self._request(IngestAnswer, "POST", "/ingest", files=parts)

    def job(self, job_id: str) -> JobAnswer:
        """The state of an ingestion."""
        return self._request(JobAnswer, "GET", f"/jobs/{job_id}")

    def jobs(self, limit: int = 20) -> JobsAnswer:
        """The latest ingestions."""
        return self._request(JobsAnswer, "GET", "/jobs", params={"limit": limit})

    def wait(self, job_id: str, seconds_between: float = 0.2) -> Iterator[JobAnswer]:
        """The job's states, one after the other; in the last one it is done."""
        while True:
            job = self.job(job_id)
            yield job
            if job.state == "done":
                return
            self._sleep(seconds_between)

    def failures(self) -> FailuresAnswer:
        """The pictures that were set aside."""
        return self._request(FailuresAnswer, "GET", "/failures")

    def retry(self, image_id: str) -> RetryAnswer:
        """Try a picture that was set aside again, in a job of its own."""
        return self._request(RetryAnswer, "POST", f"/failures/{image_id}/retry")

    def search_text(self, query: str, **options: Any) -> TextAnswer:
        """Pictures for a sentence; options as in the body of POST /search/text."""
        return self._request(TextAnswer, "POST", "/search/text", json={"query": query, **options})

    def search_image(self, picture: Path | str, **options: Any) -> ImageAnswer:
        """Captions or pictures for a file, or for the id of a stored picture; options as the form's fields."""
        fields = {**options, **({"image_id": picture} if isinstance(picture, str) else {})}
        with ExitStack() as open_files:
            parts: dict[str, Any] = {
                name: (None, value if isinstance(value, str) else json.dumps(value))
                for name, value in fields.items()
                if value is not None
            }
            if isinstance(picture, Path):
                parts["image"] = (picture.name, open_files.enter_context(picture.open("rb")))
            return self._request(ImageAnswer, "POST", "/search/image", files=parts)

    def images(
        self,
        after: str | None = None,
        limit: int = 100,
        sort: str = "arrival",
        filter: Mapping[str, Any] | None = None,
    ) -> ImagesAnswer:
        """A page of stored pictures; the filter as in the body of POST /search/text."""
        query: dict[str, Any] = {"limit": limit, "sort": sort}
        query |= {} if after is None else {"after": after}
        query |= {} if filter is None else {"filter": json.dumps(filter)}
        return self._request(ImagesAnswer, "GET", "/images", params=query)

    def info(self, image_id: str) -> ImageInfo:
        """All that is known of a picture."""
        return self._request(ImageInfo, "GET", f"/images/{image_id}/info")

    def tags(self, search: str = "", after: str = "", limit: int = 100, values: int = 100) -> TagsAnswer:
        """A page of the tags in use, with the most frequent values of each."""
        query = {"search": search, "after": after, "limit": limit, "values": values}
        return self._request(TagsAnswer, "GET", "/tags", params=query)

    def regions(self, image_id: str) -> RegionsAnswer:
        """The regions found in a stored picture."""
        return self._request(RegionsAnswer, "GET", f"/images/{image_id}/regions")

    def delete(self, image_id: str) -> None:
        """Delete a stored picture."""
        self._call("DELETE", f"/images/{image_id}")

    def restore(self, image_id: str) -> ImageListed:
        """Undo the deletion of a picture, while that is possible."""
        return self._request(ImageListed, "POST", f"/images/{image_id}/restore")

    def edit(self, image_id: str, **changes: Any) -> ImageListed:
        """Change what is known about a picture; `changes` as in the body of PATCH /images/{image_id}."""
        return self._request(ImageListed, "PATCH", f"/images/{image_id}", json=changes)

    def models(self) -> ModelsAnswer:
        """The models of the server."""
        return self._request(ModelsAnswer, "GET", "/models")

    def is_alive(self) -> bool:
        """Whether a server answers."""
        try:
            return self._client.get("/livez").is_success
        except httpx.TransportError:
            return False

    def _request(self, kind: type[A], method: str, path: str, **options: Any) -> A:
        answer = self._call(method, path, **options)
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError as fault:
            raise RequestRefused(
                answer.status_code, {"detail": f"{self.url} does not answer as Regard does"}
            ) from fault

    def _call(self, method: str, path: str, **options: Any) -> httpx.Response:
        notified = ""
        for _ in range(MAX_SENDS):
            answer = self._send(method, path, **options)
            wait = answer.headers.get("retry-after", "")
            if answer.status_code not in (429, 503) or not wait.isdecimal():
                break
            reason = str(_document(answer).get("detail", f"{self.url} is overloaded"))
            if reason != notified:
                self._notify(f"{reason} Waiting.")
                notified = reason
            self._sleep(float(wait))
        if answer.is_success:
            return answer
        document = _document(answer)
        if not document:
            document = {"detail": f"{self.url} does not answer as Regard does (status {answer.status_code})"}
        raise RequestRefused(answer.status_code, document)

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        for part in _open_files(options):
            part.seek(0)
        try:
            return self._client.request(method, path, **options)
        except httpx.TimeoutException:
            raise ServerUnreachable(f"{self.url} did not answer within {TIMEOUT_S:g} s") from None
        except (httpx.TransportError, httpx.InvalidURL) as fault:
            raise ServerUnreachable(
                f"nobody answers at {self.url} ({fault}): start `regard serve`, or say with --url or REGARD_URL where a"
                " service runs"
            ) from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()


def server_url(address: str) -> str:
    """The URL of a server that is given as host:port or as a URL, without a slash at its end. UserError for others."""
    written = address.strip()
    url = (written if "://" in written else f"http://{written}").rstrip("/")
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        parts = httpx.URL("")
    is_address = parts.scheme in ("http", "https") and parts.host and not parts.query and not parts.fragment
    if not is_address or not 0 < (parts.port or 80) < 2**16:
        raise UserError(f"{address!r} is no address of a service: write host:port, http://host:port or https://host")
    return url


def _document(answer: httpx.Response) -> dict[str, Any]:
    """The JSON object in a response; empty where there is none."""
    try:
        document = answer.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _open_files(options: Mapping[str, Any]) -> Iterator[Any]:
    """The open files among a request's parts: a request that is sent again sends them from their beginning."""
    parts = options.get("files", {})
    for _, (name, content) in parts.items() if isinstance(parts, Mapping) else parts:
        if name is not None:
            yield content


def upload_batches(files: Iterable[tuple[str, Path]]) -> Iterator[list[tuple[str, Path]]]:
    """(name, file) pairs in groups, each small enough for one request and without two files of one name."""
    batch: list[tuple[str, Path]] = []
    num_bytes = 0
    for name, path in files:
        size = path.stat().st_size
        is_full = len(batch) == MAX_BATCH_FILES or num_bytes + size > MAX_BATCH_BYTES
        if batch and (is_full or any(name == other for other, _ in batch)):
            yield batch
            batch, num_bytes = [], 0
        batch.append((name, path))
        num_bytes += size
    if batch:
        yield batch
