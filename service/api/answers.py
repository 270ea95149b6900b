"""Answers to searches: those that were kept, and new ones, which are written and kept.

All of it blocks, and belongs into threads.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from pydantic import ValidationError

from service.api.admission.accelerator import Admission
from service.api.cache import cache_key
from service.api.schemas.results import AnyAnswer
from service.api.services import Services
from service.search.engine import origin
from service.search.query import Accelerate, OpenQuery
from service.search.requests import SearchRequest
from service.search.results import SearchResult


class AcceleratedWork(Protocol):
    """A search that is ready to run."""

    def __call__(self, *, accelerate: Accelerate) -> SearchResult[Any]:
        """Its result; `accelerate` runs what is the accelerator's."""


@dataclass(frozen=True)
class Asked:
    """A question as it came in."""

    request: SearchRequest
    schema: type[AnyAnswer]
    """The form of its answers."""
    what: Mapping[str, Any]
    """Further facts that tell the question from others: its kind, the digest of a picture."""
    started: float
    """When it came, by time.perf_counter."""


@dataclass(frozen=True)
class Begun:
    """A question to which no answer is there yet."""

    asked: Asked
    query: OpenQuery[Any]
    key: str | None
    """The answer will be kept under it; None where none is kept."""
    cost: int | None = None
    """For the accelerator; None where it is not known yet."""


@dataclass(frozen=True)
class Answered:
    """An answer as JSON, and the milliseconds of its stages; none where it was kept."""

    content: bytes
    stages: Mapping[str, float]


def kept_or_begun(services: Services, asked: Asked) -> Answered | Begun:
    """The answer that was kept, marked so, with the time that finding it took; otherwise what has begun.

    Raises what `SearchEngine.begin` does.
    """
    query = services.search.begin(asked.request)
    key = answer_key(services, query, asked.what)
    kept = None if key is None else services.cache.get(key)
    answer = None if kept is None else answer_from(kept, asked.schema, query)
    services.metrics.cache.labels("miss" if answer is None else "hit").inc()
    if answer is None:
        return Begun(asked, query, key)
    stages = answer.timings_ms.model_dump(exclude={"load"})
    timings = {**dict.fromkeys(stages, 0.0), "total": milliseconds_since(asked.started)}
    marked = answer.model_copy(update={"cached": True, "timings_ms": type(answer.timings_ms)(**timings)})
    return Answered(marked.model_dump_json().encode(), {})


def light_text_answer(services: Services, asked: Asked, admission: Admission) -> Answered | Begun:
    """The answer to a sentence where it was kept or is light work; otherwise what has begun.

    Overloaded, and what `kept_or_begun` raises.
    """
    found = kept_or_begun(services, asked)
    if isinstance(found, Answered) or found.query.awaits_model:
        return found
    cost = services.search.costs.of(found.query)
    if not services.is_light(found.query, cost):
        return replace(found, cost=cost)
    admission.becomes(cost)
    return new_answer(services, found, partial(services.search.text, found.query), admission, {})


def new_answer(
    services: Services, begun: Begun, work: AcceleratedWork, admission: Admission, before: Mapping[str, float]
) -> Answered:
    """The result of the work, which is kept for the next who asks the same.

    `before` are the milliseconds of stages that came before it.
    """
    result = work(accelerate=admission.run)
    stages = {**before, **result.timings_ms}
    timings = {**stages, "total": milliseconds_since(begun.asked.started)}
    found = {name: value for name, value in vars(result).items() if name not in ("origin", "reading")}
    flat = {**vars(result.origin), **vars(result.reading), **found, "cached": False, "timings_ms": timings}
    answer = begun.asked.schema.model_validate(flat, from_attributes=True)
    content = answer.model_dump_json().encode()
    if begun.key is not None:
        services.cache.put(begun.key, content)
    return Answered(content, stages)


def answer_key(services: Services, query: OpenQuery[Any], what: Mapping[str, Any]) -> str | None:
    """The key that the answer is kept under; None where none is kept, so that no shard's version is waited for."""
    return cache_key({**what, **determining(query)}) if services.cache.keeps_any else None


def determining(query: OpenQuery[Any]) -> dict[str, Any]:
    """Everything an answer depends on."""
    return {
        **query.request.model_dump(mode="json"),
        "model": query.model.name,
        "digest": query.model.header.digest,
        "index_version": query.index_version,
    }


def answer_from(kept: bytes, schema: type[AnyAnswer], query: OpenQuery[Any]) -> AnyAnswer | None:
    """The kept answer, if it is one of this form to this query."""
    try:
        answer = schema.model_validate_json(kept)
    except ValidationError:
        return None
    said = {**vars(origin(query)), **query.request.model_dump(include={"query", "match", "target"})}
    is_own = all(getattr(answer, name) == value for name, value in said.items())
    return answer if is_own and len(answer.results) <= query.request.k else None


def milliseconds_since(started: float) -> float:
    """Milliseconds since `started`, a time.perf_counter reading."""
    return (time.perf_counter() - started) * 1000
