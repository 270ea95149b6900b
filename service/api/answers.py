"""Answers to searches: cached ones, and new ones, which are computed, serialized and cached.

All functions here block, and must run in threads.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from pydantic import ValidationError

from service import VERSION
from service.api.admission.accelerator import Admission
from service.api.cache import cache_key
from service.api.schemas.results import AnyAnswer
from service.api.services import Services
from service.search.engine import origin
from service.search.query import Accelerate, OpenQuery
from service.search.requests import ImageSearchRequest, TextSearchRequest
from service.search.results import SearchResult


class AcceleratedWork(Protocol):
    """A search that is ready to be run."""

    def __call__(self, *, accelerate: Accelerate) -> SearchResult[Any]:
        """The search's result; `accelerate` runs its work on the accelerator."""


@dataclass(frozen=True)
class Asked:
    """A search as it was received."""

    request: TextSearchRequest | ImageSearchRequest
    schema: type[AnyAnswer]
    """The schema of its answers."""
    what: Mapping[str, Any]
    """Further parts of its cache key: its kind, the digest of a picture."""
    started: float
    """When it was received, by time.perf_counter."""


@dataclass(frozen=True)
class Begun:
    """A search without a cached answer."""

    asked: Asked
    query: OpenQuery[Any]
    key: str | None
    """The cache key of the answer; None where it is not cached."""
    cost: int | None = None
    """The cost for the accelerator; None where it is not known yet."""


@dataclass(frozen=True)
class Answered:
    """An answer as JSON, and the milliseconds of its stages, of which a cached one has none."""

    content: bytes
    stages: Mapping[str, float]


def kept_or_begun(services: Services, asked: Asked) -> Answered | Begun:
    """The cached answer, marked as such and with its own timings; otherwise the query, begun.

    Raises what `SearchEngine.begin` does.
    """
    query = services.search.begin(asked.request)
    key = answer_key(services, query, asked.what)
    cached = None if key is None else services.cache.get(key)
    answer = None if cached is None else answer_from(cached, asked.schema, query)
    services.metrics.cache.labels("miss" if answer is None else "hit").inc()
    if answer is None:
        return Begun(asked, query, key)
    stages = answer.timings_ms.model_dump(exclude={"load"})
    timings = {**dict.fromkeys(stages, 0.0), "total": milliseconds_since(asked.started)}
    marked = answer.model_copy(update={"cached": True, "timings_ms": type(answer.timings_ms)(**timings)})
    return Answered(marked.model_dump_json().encode(), {})


def light_text_answer(services: Services, asked: Asked, admission: Admission) -> Answered | Begun:
    """The answer to a sentence where it is cached or light work; otherwise the query, begun.

    Raises Overloaded, and what `kept_or_begun` does.
    """
    answer = kept_or_begun(services, asked)
    if isinstance(answer, Answered) or answer.query.awaits_model:
        return answer
    cost = services.search.costs.of(answer.query)
    if not services.is_light(answer.query, cost):
        return replace(answer, cost=cost)
    admission.becomes(cost)
    return new_answer(services, answer, partial(services.search.text, answer.query), admission, {})


def new_answer(
    services: Services, begun: Begun, work: AcceleratedWork, admission: Admission, before: Mapping[str, float]
) -> Answered:
    """The answer made of the result of the work, which is also cached.

    `before` are the milliseconds of the stages before the work.
    """
    result = work(accelerate=admission.run)
    stages = {**before, **result.timings_ms}
    timings = {**stages, "total": milliseconds_since(begun.asked.started)}
    rest = {name: value for name, value in vars(result).items() if name not in ("origin", "reading")}
    flat = {**vars(result.origin), **vars(result.reading), **rest, "cached": False, "timings_ms": timings}
    answer = begun.asked.schema.model_validate(flat, from_attributes=True)
    content = answer.model_dump_json().encode()
    if begun.key is not None:
        services.cache.put(begun.key, content)
    return Answered(content, stages)


def answer_key(services: Services, query: OpenQuery[Any], what: Mapping[str, Any]) -> str | None:
    """The cache key of the answer; None where nothing is cached, so that no shard's version is waited for."""
    return cache_key({**what, **determining(query)}) if services.cache.keeps_any else None


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
