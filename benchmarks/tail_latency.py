"""A simulation of the latency of a query that many shards answer, from measured times of one shard.

A query is encoded once, then sent to one replica of every shard. Each shard returns its best candidates of stage one
and reranks its likely share of the best `candidates` of all shards. With one round trip the search ends there; with
two, shards that hold more of the best are asked for the rest. A round trip ends with its slowest shard.

Every request draws its own times (bootstrap), so that shards are slow independently of each other. A straggler takes
a multiple of its time. If a shard has a second replica, a request that takes longer than the hedge's delay is also sent
there, and the first answer counts; a request to a lost replica fails after `notice_ms`. With a rate of queries, each
request also waits independently as in a queue with one server (Lindley's recursion). Not simulated: a full network,
the load of hedges, a cache, shards that slow each other on one machine.
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

    `shortlist` is for a shard of `rows` pictures, `rerank` for `candidates` of them, `rerank_one` for one. `ns_per_row`
    is stage one's time for each further row.
    """

    encode: Floats
    shortlist: Floats
    rerank: Floats
    call: Floats
    rows: int
    candidates: int
    rerank_one: float
    ns_per_row: float = 0.0
    front: Floats = field(default_factory=lambda: np.zeros(1))  # before the router, such as HTTP

    @classmethod
    def from_json(cls, report: dict[str, Any]) -> Self:
        """The times of a file that `measure` wrote, or of its form."""
        samples = {name: np.asarray(report[f"{name}_ms"], float) for name in ("encode", "shortlist", "rerank", "call")}
        if "front_ms" in report:
            samples["front"] = np.asarray(report["front_ms"], float)
        return cls(
            **samples,
            rows=report["rows"],
            candidates=report["candidates"],
            rerank_one=report["rerank_one_ms"],
            ns_per_row=report["ns_per_row"],
        )

    def for_rows(self, rows: float) -> Self:
        """The times of a larger shard: work grows with its rows, disturbances do not."""
        return replace(self, shortlist=self.shortlist + (rows - self.rows) * self.ns_per_row / 1e6, rows=round(rows))

    def rerank_share(self, candidates: npt.ArrayLike) -> Floats:
        """The time to rerank that many candidates, as a share of the measured number's; 0 for none."""
        count = np.asarray(candidates, float)
        whole = float(np.median(self.rerank))
        one = min(1.0, self.rerank_one / whole) if whole > 0 else 1.0
        slope = (1 - one) / max(1, self.candidates - 1)
        return np.where(count > 0, one + slope * (count - 1), 0.0)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The simulated cluster."""

    shards: int
    replicas: int = 2
    round_trips: int = 2
    hedge: bool = True
    lost: float = 0.0  # share of replicas that are away
    notice_ms: float = 100.0  # after which a request to a lost replica fails
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
        return {f"p{p}": float(np.percentile(self.latency_ms, p)) for p in PERCENTILES}


def simulate(times: ServiceTimes, cluster: Cluster, queries: int, seed: int) -> Outcome:
    """The outcome of `queries` simulated queries, the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    visits = _visits(times, cluster, queries, rng)
    works = sum(visit.work_ms[:, 0] for visit in visits) + np.zeros(queries)
    away = rng.random((2, queries, cluster.shards)) < cluster.lost
    away[1] |= cluster.replicas < 2
    latency = rng.choice(times.front, queries) + rng.choice(times.encode, queries)
    whole, sent, twice = np.ones(queries, bool), 0, 0
    for visit in visits:
        first, second = (_requests(work, times, cluster, works, rng) for work in (visit.work_ms, visit.again_ms))
        if not visit.asked.any():
            continue
        delay = float(np.percentile(first[visit.asked], HEDGE_PERCENTILE)) if cluster.hedge else math.inf
        answers, begins = hedged(first, second, away, delay, cluster.notice_ms)
        # A request without a replica to answer it fails as soon as the last one has failed.
        gives_up = begins + cluster.notice_ms if cluster.replicas > 1 else np.full(answers.shape, cluster.notice_ms)
        answered = np.isfinite(answers) & (answers <= cluster.deadline_ms)
        latency = latency + np.where(visit.asked, np.where(answered, answers, gives_up), 0.0).max(axis=1)
        whole &= (answered | ~visit.asked).all(axis=1)
        sent += int(visit.asked.sum())
        twice += int(np.count_nonzero(visit.asked & (np.minimum(answers, gives_up) > begins)))
    late = latency > cluster.deadline_ms
    return Outcome(np.minimum(latency, cluster.deadline_ms), whole & ~late, twice / max(1, sent))


@dataclass(frozen=True)
class _Visit:
    """One round trip: [queries, shards] work of the first request and of its hedge, and which shards are asked."""

    work_ms: Floats
    again_ms: Floats
    asked: npt.NDArray[np.bool_]


def _visits(times: ServiceTimes, cluster: Cluster, queries: int, rng: Generator) -> list[_Visit]:
    shape = (queries, cluster.shards)
    shortlist, shortlist_again = rng.choice(times.shortlist, shape), rng.choice(times.shortlist, shape)
    rerank, rerank_again = rng.choice(times.rerank, shape), rng.choice(times.rerank, shape)
    likely = local_candidates(cluster.candidates, cluster.shards)
    share = times.rerank_share(likely)
    first = _Visit(shortlist + share * rerank, shortlist_again + share * rerank_again, np.ones(shape, bool))
    if cluster.round_trips == 1:
        return [first]
    candidates = rng.multinomial(cluster.candidates, np.full(cluster.shards, 1 / cluster.shards), size=queries)
    rest = times.rerank_share(candidates - likely)
    return [
        first,
        _Visit(rest * rng.choice(times.rerank, shape), rest * rng.choice(times.rerank, shape), candidates > likely),
    ]


def _requests(work: Floats, times: ServiceTimes, cluster: Cluster, works: Floats, rng: Generator) -> Floats:
    """[queries, shards] milliseconds of one request each: the call, the wait in the queue, and the work."""
    slow = np.where(rng.random(work.shape) < cluster.stragglers, cluster.straggler_factor, 1.0)
    return rng.choice(times.call, work.shape) + slow * work + _waits(cluster, works, work.shape, rng)


def hedged(
    first: Floats, second: Floats, away: npt.NDArray[np.bool_], delay: float, notice_ms: float
) -> tuple[Floats, Floats]:
    """Milliseconds until the earlier of two answers, inf if both replicas are away, and until the second is asked.

    The second is asked after `delay`, or once the first is known to be away. `away` is [2, ...].
    """
    begins = np.where(away[0], min(delay, notice_ms), delay)
    answer, other = np.where(away[0], np.inf, first), np.where(away[1], np.inf, second)
    # inf + anything is inf: a second request that is never sent never answers.
    return np.minimum(answer, begins + other), begins


def _waits(cluster: Cluster, works: Floats, shape: tuple[int, ...], rng: Generator) -> Floats:
    """[queries, shards] milliseconds in the queue of a replica that does such work at its part of the rate."""
    if not cluster.rate:
        return np.zeros(shape)
    rate = cluster.rate / cluster.replicas
    waits = queue_waits(rng.exponential(1000 / rate, QUEUED), rng.choice(works, QUEUED))
    return rng.choice(waits, shape)


def queue_waits(gaps_ms: Floats, works_ms: Floats) -> Floats:
    """Milliseconds that each request waits for those before it, by Lindley's recursion."""
    # Each wait is the walk of (work - gap) above its lowest point so far.
    steps = np.concatenate([[0.0], (works_ms[:-1] - gaps_ms[1:])])
    walk = np.cumsum(steps)
    waits: Floats = walk - np.minimum.accumulate(walk)
    return waits
