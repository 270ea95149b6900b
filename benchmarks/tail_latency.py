"""The latency of a query that many shards answer, simulated from measured times of one shard. Nothing here is measured.

A query is encoded once, then sent to one replica of every shard; each gives its best candidates of stage one, and
reranks its likely share of the best `candidates` of all at once. In two round trips the shards that hold more of these
are asked for the rest; in one round trip the search ends there. A round trip ends with its slowest shard.

Every request draws its own times (bootstrap), so that shards are slow independently of each other. A straggler takes
a multiple of its time. Where a shard has a second replica, a request that has taken longer than the hedge's delay is
sent to it too, and the first answer counts; a request to a lost replica fails after the time in which that is noticed.
With a rate of queries, each request also waits as in a queue with one server (Lindley's recursion), independently.
Not simulated: a network that is full, hedges that add load, a cache, machines whose shards disturb each other.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from service.cluster.routing.one_round_trip import local_candidates

Floats = npt.NDArray[np.float64]
Generator = np.random.Generator

HEDGE_PERCENTILE = 95
QUEUED = 20_000  # requests in the queue from which waits are drawn
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, kw_only=True)
class ServiceTimes:
    """Measured milliseconds: one-dimensional samples, each drawn independently.

    `shortlist` belongs to a shard of `rows` pictures, `rerank` to `candidates` of them and takes `rerank_one` for one.
    `ns_per_row` is what stage one takes for each row more.
    """

    encode: Floats
    shortlist: Floats
    rerank: Floats
    call: Floats
    rows: int
    candidates: int
    rerank_one: float
    ns_per_row: float = 0.0
    front: Floats = field(default_factory=lambda: np.zeros(1))  # of what stands before the router, such as HTTP

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> Self:
        """The times that `measure` wrote, or a file in its form."""
        samples = {name: np.asarray(held[f"{name}_ms"], float) for name in ("encode", "shortlist", "rerank", "call")}
        if "front_ms" in held:
            samples["front"] = np.asarray(held["front_ms"], float)
        return cls(
            **samples,
            rows=held["rows"],
            candidates=held["candidates"],
            rerank_one=held["rerank_one_ms"],
            ns_per_row=held["ns_per_row"],
        )

    def for_rows(self, rows: float) -> Self:
        """The times of a larger shard: the work grows with its rows, what disturbs it does not."""
        return replace(self, shortlist=self.shortlist + (rows - self.rows) * self.ns_per_row / 1e6, rows=round(rows))

    def rerank_share(self, candidates: npt.ArrayLike) -> Floats:
        """How long it takes to rerank so many candidates, as a share of the measured number; nothing for none."""
        count = np.asarray(candidates, float)
        whole = float(np.median(self.rerank))
        one = min(1.0, self.rerank_one / whole) if whole > 0 else 1.0
        slope = (1 - one) / max(1, self.candidates - 1)
        return np.where(count > 0, one + slope * (count - 1), 0.0)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What is simulated."""

    shards: int
    replicas: int = 2
    round_trips: int = 2
    hedge: bool = True
    lost: float = 0.0  # share of replicas that are away
    notice_ms: float = 100.0  # after which a request to one of those fails
    stragglers: float = 0.01  # share of requests
    straggler_factor: float = 10.0
    deadline_ms: float = 2000.0
    candidates: int = 100
    rate: float = 0.0  # queries a second


@dataclass(frozen=True)
class Outcome:
    """Milliseconds of each query, and whether every shard answered it before the deadline."""

    latency_ms: Floats
    whole: npt.NDArray[np.bool_]
    hedged: float  # share of requests that were sent twice

    def percentiles(self) -> dict[str, float]:
        """p50, p95 and p99."""
        return {f"p{one}": float(np.percentile(self.latency_ms, one)) for one in PERCENTILES}


def simulate(times: ServiceTimes, cluster: Cluster, queries: int, seed: int) -> Outcome:
    """So many queries; the same seed draws the same ones."""
    rng = np.random.default_rng(seed)
    visits = _visits(times, cluster, queries, rng)
    works = sum(visit.work_ms[:, 0] for visit in visits) + np.zeros(queries)
    away = rng.random((2, queries, cluster.shards)) < cluster.lost
    away[1] |= cluster.replicas < 2
    spent = rng.choice(times.front, queries) + rng.choice(times.encode, queries)
    whole, sent, twice = np.ones(queries, bool), 0, 0
    for visit in visits:
        first, second = (_requests(work, times, cluster, works, rng) for work in (visit.work_ms, visit.again_ms))
        if not visit.asked.any():
            continue
        delay = float(np.percentile(first[visit.asked], HEDGE_PERCENTILE)) if cluster.hedge else math.inf
        answers, begins = hedged(first, second, away, delay, cluster.notice_ms)
        # Who has no replica to answer says so as soon as the last one has failed.
        gives_up = begins + cluster.notice_ms if cluster.replicas > 1 else np.full(answers.shape, cluster.notice_ms)
        answered = np.isfinite(answers) & (answers <= cluster.deadline_ms)
        spent = spent + np.where(visit.asked, np.where(answered, answers, gives_up), 0.0).max(axis=1)
        whole &= (answered | ~visit.asked).all(axis=1)
        sent += int(visit.asked.sum())
        twice += int(np.count_nonzero(visit.asked & (np.minimum(answers, gives_up) > begins)))
    late = spent > cluster.deadline_ms
    return Outcome(np.minimum(spent, cluster.deadline_ms), whole & ~late, twice / max(1, sent))


@dataclass(frozen=True)
class _Visit:
    """One round trip: [queries, shards] work of the first request and of a second one, and who is asked at all."""

    work_ms: Floats
    again_ms: Floats
    asked: npt.NDArray[np.bool_]


def _visits(times: ServiceTimes, cluster: Cluster, queries: int, rng: Generator) -> list[_Visit]:
    shape = (queries, cluster.shards)
    shortlist, shortlist_again = rng.choice(times.shortlist, shape), rng.choice(times.shortlist, shape)
    rerank, again = rng.choice(times.rerank, shape), rng.choice(times.rerank, shape)
    likely = local_candidates(cluster.candidates, cluster.shards)
    share = times.rerank_share(likely)
    first = _Visit(shortlist + share * rerank, shortlist_again + share * again, np.ones(shape, bool))
    if cluster.round_trips == 1:
        return [first]
    held = rng.multinomial(cluster.candidates, np.full(cluster.shards, 1 / cluster.shards), size=queries)
    rest = times.rerank_share(held - likely)
    return [
        first,
        _Visit(rest * rng.choice(times.rerank, shape), rest * rng.choice(times.rerank, shape), held > likely),
    ]


def _requests(work: Floats, times: ServiceTimes, cluster: Cluster, works: Floats, rng: Generator) -> Floats:
    """[queries, shards] milliseconds of one request each: the call, the wait in the queue, and the work."""
    slow = np.where(rng.random(work.shape) < cluster.stragglers, cluster.straggler_factor, 1.0)
    return rng.choice(times.call, work.shape) + slow * work + _waits(cluster, works, work.shape, rng)


def hedged(
    first: Floats, second: Floats, away: npt.NDArray[np.bool_], delay: float, notice_ms: float
) -> tuple[Floats, Floats]:
    """Milliseconds until the earlier of two answers, inf where both replicas are away; when the second is asked.

    That is after `delay`, or once the first is known to be away. `away` is [2, ...].
    """
    begins = np.where(away[0], min(delay, notice_ms), delay)
    answer, other = np.where(away[0], np.inf, first), np.where(away[1], np.inf, second)
    # inf + anything is inf: a second request that is never sent never answers.
    return np.minimum(answer, begins + other), begins


def _waits(cluster: Cluster, works: Floats, shape: tuple[int, ...], rng: Generator) -> Floats:
    """[queries, shards] milliseconds in the queue of a replica that does such works at its part of the rate."""
    if not cluster.rate:
        return np.zeros(shape)
    rate = cluster.rate / cluster.replicas
    waits = queue_waits(rng.exponential(1000 / rate, QUEUED), rng.choice(works, QUEUED))
    return rng.choice(waits, shape)


def queue_waits(gaps_ms: Floats, works_ms: Floats) -> Floats:
    """How long each of many requests waits for those before it: Lindley's recursion."""
    # Each wait is the walk of (work - gap) above its lowest point so far.
    steps = np.concatenate([[0.0], (works_ms[:-1] - gaps_ms[1:])])
    walk = np.cumsum(steps)
    waits: Floats = walk - np.minimum.accumulate(walk)
    return waits
