"""Answers to searches: cached ones, and new ones, which are computed, serialized and cached.

Everything here blocks, and must run in threads.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from service import VERSION
from service.api.admission.accelerator import Admission
from service.api.cache import cache_key
from service.api.schemas.results import AnyAnswer, ImageAnswer, TextAnswer
from service.api.services import Services
from service.ingest.multipart import UploadedFile
from service.media.decode_pool import DecodedPicture
from service.search.engine import origin
from service.search.query import Accelerate, OpenQuery
from service.search.requests import ImageSearchRequest, TextSearchRequest
from service.search.results import SearchResult


@dataclass(frozen=True)
class SerializedAnswer:
    """An answer as JSON, and the milliseconds of its stages, of which a cached one has none."""

    content: bytes
    stages: Mapping[str, float]


class PendingSearch:
    """A search that waits for its answer.

    Its methods are called one after the other, in any threads; `cached` or `cached_or_light` comes first.
    """

    query: OpenQuery[Any]
    """The query, begun by `cached`."""

    def __init__(
        self,
        services: Services,
        request: TextSearchRequest | ImageSearchRequest,
        started: float,
        upload: UploadedFile | None = None,
    ) -> None:
        """The search was received when time.perf_counter was `started`, with the picture `upload` if there is one."""
        is_text = isinstance(request, TextSearchRequest)
        self.upload = upload
        self._services, self._request, self._started = services, request, started
        self._schema: type[AnyAnswer] = TextAnswer if is_text else ImageAnswer
        self._kind = {"search": "text"} if is_text else {"search": "image", "sha256": upload and upload.sha256}
        self._cache_key: str | None = None
        self._cost: int | None = None

    def cached(self) -> SerializedAnswer | None:
        """The cached answer, marked as such and with its own timings; None where there is none.

        Raises what `SearchEngine.begin` does.
        """
        self.query = self._services.collection.search.begin(self._request)
        self._cache_key = answer_key(self._services, self.query, self._kind)
        content = None if self._cache_key is None else self._services.cache.get(self._cache_key)
        answer = None if content is None else answer_from(content, self._schema, self.query)
        self._services.metrics.cache.labels("miss" if answer is None else "hit").inc()
        if answer is None:
            return None
        stages = answer.timings_ms.model_dump(exclude={"load"})
        timings = {**dict.fromkeys(stages, 0.0), "total": milliseconds_since(self._started)}
        marked = answer.model_copy(update={"cached": True, "timings_ms": type(answer.timings_ms)(**timings)})
        return SerializedAnswer(marked.model_dump_json().encode(), {})

    @property
    def has_cost(self) -> bool:
        """Whether the cost is computed already, so that `cost` need not run in a thread."""
        return self._cost is not None

    def cost(self) -> int:
        """The cost for the accelerator, computed at the first call. Raises what `QueryCosts.of` does."""
        if self._cost is None:
            costs = self._services.collection.search.costs
            self._cost = costs.of(self.query) if self.upload is None else costs.of_upload(self.query)
        return self._cost

    def cached_or_light(self, admission: Admission) -> SerializedAnswer | None:
        """The answer where it is cached or light work; None where it is heavy, or the model must be loaded first.

        Raises Overloaded, and what `cached`, `cost` and `run` do.
        """
        if (answer := self.cached()) is not None or self.query.awaits_model:
            return answer
        if not self._services.capacity.is_light(self.query, self.cost()):
            return None
        admission.becomes(self.cost())
        return self.run(admission)

    def run(
        self, admission: Admission, before: Mapping[str, float] = {}, picture: DecodedPicture | None = None
    ) -> SerializedAnswer:
        """A new answer, which is also cached.

        `before` are the milliseconds of the stages before this; `picture` is the upload, decoded.
        """
        result = self._result(admission.run, picture)
        stages = {**before, **result.timings_ms}
        timings = {**stages, "total": milliseconds_since(self._started)}
        rest = {name: value for name, value in vars(result).items() if name not in ("origin", "reading")}
        flat = {**vars(result.origin), **vars(result.reading), **rest, "cached": False, "timings_ms": timings}
        answer = self._schema.model_validate(flat, from_attributes=True)
        content = answer.model_dump_json().encode()
        if self._cache_key is not None:
            self._services.cache.put(self._cache_key, content)
        return SerializedAnswer(content, stages)

    def _result(self, accelerate: Accelerate, picture: DecodedPicture | None) -> SearchResult[Any]:
        engine, request = self._services.collection.search, self._request
        if picture is not None:
            return engine.uploaded(self.query, picture.picture, (picture.width, picture.height), accelerate)
        if isinstance(request, TextSearchRequest):
            return engine.text(self.query, accelerate)
        return engine.like_stored(self.query, self.query.request.image_id, accelerate)


def answer_key(services: Services, query: OpenQuery[Any], kind: Mapping[str, Any]) -> str | None:
    """The cache key of the answer; None where nothing is cached, so that no shard's version is waited for."""
    return cache_key({**kind, **determining(query)}) if services.cache.keeps_any else None


def determining(query: OpenQuery[Any]) -> dict[str, Any]:
    """Everything an answer depends on."""
    return {
        **query.request.model_dump(mode="json"),
        "model": query.model.name,
        "digest": query.model.header.digest,
        "index_version": query.index_version,
        "release": VERSION,  # questions may be read in another way
    }


def answer_from(cached: bytes, schema: type[AnyAnswer], query: OpenQuery[Any]) -> AnyAnswer | None:
    """The cached answer, if it has this schema and answers this query."""
    try:
        answer = schema.model_validate_json(cached)
    except ValidationError:
        return None
    expected = {**vars(origin(query)), **query.request.model_dump(include={"query", "match", "target"})}
    is_expected = all(getattr(answer, name) == value for name, value in expected.items())
    return answer if is_expected and len(answer.results) <= query.request.k else None


def milliseconds_since(started: float) -> float:
    """Milliseconds since `started`, a time.perf_counter reading."""
    return (time.perf_counter() - started) * 1000
