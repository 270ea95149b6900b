"""Times of each step of a search on the shards of a running cluster, and of the calls."""

import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import Any, NamedTuple

import torch

from service.cluster.messages import SentTexts
from service.cluster.on_ray.director import running_cluster
from service.cluster.on_ray.remote import Outcome, RemoteReplica
from service.cluster.routing.one_round_trip import local_candidates
from service.model_loading import load_model
from service.search.requests import TextSearchRequest
from service.search.sentences import encoded_sentences
from service.settings import ClusterSettings, Settings

STAGES = ("encode", "shortlist", "rerank")
CANDIDATES = 100
CALL_S = 60.0


class ShardProbe:
    """Measures searches that it makes as a router would, in milliseconds."""

    def __init__(self, chosen: ClusterSettings, settings: Settings) -> None:
        """Connect to the first replica of each shard."""
        self._matcher = load_model(settings.models[0], "cpu")
        plan = running_cluster(chosen).plan()
        assert plan is not None
        self._replicas = [_TimedReplica(shard) for shard in range(len(plan.shards))]
        self._spent: dict[str, list[float]] = defaultdict(list)
        self._share = local_candidates(CANDIDATES, len(self._replicas))
        self._orders = itertools.cycle(itertools.permutations((self._share, 1, 0)))

    def note(self, question: str, answer: dict[str, Any], end_to_end_ms: float) -> None:
        """Record the times of a router's answer, and make the same search here."""
        stages = {name: float(answer["timings_ms"][name]) for name in STAGES}
        self._spent["encode"].append(stages["encode"])
        self._spent["front"].append(end_to_end_ms - sum(stages.values()))
        self._search(question)

    def forget(self) -> None:
        """Discard the times recorded so far."""
        self._spent.clear()

    def service_times(self) -> dict[str, Any]:
        """The recorded times in the form that the simulation reads."""
        names = ("encode", "front", "call", "shortlist", "rerank")
        times: dict[str, Any] = {f"{name}_ms": [round(each, 4) for each in self._spent[name]] for name in names}
        rerank_one_ms = statistics.median(self._spent["rerank one"])
        return {"candidates": self._share, "shortlisted": CANDIDATES, "rerank_one_ms": rerank_one_ms, **times}

    def _search(self, question: str) -> None:
        """Call all shards at once as a router does: to score the usual share of candidates, one, and none."""
        request = TextSearchRequest(query=question, model=self._matcher.name)
        with torch.inference_mode():
            ((texts, embedding),) = encoded_sentences(self._matcher, [question])
        vector, sent = embedding.float().cpu().numpy(), SentTexts.of(texts)
        spent = {scored: self._ask((request, scored, vector, sent)) for scored in next(self._orders)}
        without_scoring = [one.work_ms for one in spent[0]]
        self._spent["shortlist"] += without_scoring
        self._spent["call"] += [one.call_ms for one in spent[self._share]]
        self._spent["rerank"] += beyond([one.work_ms for one in spent[self._share]], without_scoring)
        self._spent["rerank one"] += beyond([one.work_ms for one in spent[1]], without_scoring)

    def _ask(self, arguments: tuple[Any, ...]) -> list["_Spent"]:
        running = [one.begin("first_answer", *arguments) for one in self._replicas]
        wait(running, CALL_S)
        spent = []
        for future in running:
            outcome, total = future.result()
            if outcome.problem is not None:
                raise outcome.problem
            spent.append(_Spent(1000 * outcome.seconds, 1000 * (total - outcome.seconds)))
        return spent


def beyond(whole: Sequence[float], part: Sequence[float]) -> list[float]:
    """The time of each beyond its part; 0 where a disturbance made the part longer."""
    return [max(0.0, one - other) for one, other in zip(whole, part, strict=True)]


class _Spent(NamedTuple):
    work_ms: float
    call_ms: float
    """Without the work."""


class _TimedReplica(RemoteReplica):
    """A replica whose answers carry the seconds they took, on the shard and in all."""

    def __init__(self, shard: int) -> None:
        super().__init__(shard, 0)

    def begin(self, method: str, *arguments: Any) -> "Future[Any]":
        """Begin a call of a search; its result is an Outcome and the seconds until it arrived."""
        began = time.perf_counter()
        timed: Future[tuple[Outcome, float]] = Future()

        def settle(done: "Future[Any]") -> None:
            spent, fault = time.perf_counter() - began, done.exception()
            if fault is not None:
                timed.set_exception(fault)
            else:
                timed.set_result((done.result(), spent))

        self.begin_outcome("ask", 0, method, arguments).add_done_callback(settle)
        return timed
