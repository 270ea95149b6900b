"""What the shards of a cluster that runs take for each step of a search, and what a call takes besides."""

import statistics
import time
from collections import defaultdict
from concurrent.futures import Future, wait
from typing import Any

import torch

from index.text_statistics import TextStatistics
from service.cluster.messages import SentTexts
from service.cluster.one_round_trip import local_candidates
from service.cluster.ray_director import running_cluster
from service.cluster.remote import Outcome, RemoteReplica
from service.model_loading import load_model
from service.search.requests import TextSearchRequest
from service.search.sentences import encoded_sentences
from service.settings import ClusterSettings, Settings

STAGES = ("encode", "shortlist", "rerank")
CANDIDATES = 100
CALL_S = 60.0


class ShardProbe:
    """Makes searches like a router's, and remembers milliseconds."""

    def __init__(self, chosen: ClusterSettings, settings: Settings) -> None:
        """The first replica of each shard is asked."""
        self._matcher = load_model(settings.models[0], "cpu")
        plan = running_cluster(chosen).plan()
        assert plan is not None
        self._replicas = [_TimedReplica(shard) for shard in range(len(plan.shards))]
        self._spent: dict[str, list[float]] = defaultdict(list)
        shards = len(self._replicas)
        one_trip = chosen.search_round_trips == 1
        self._share = local_candidates(CANDIDATES, shards) if one_trip else round(CANDIDATES / shards)

    def note(self, question: str, answer: dict[str, Any], end_to_end_ms: float) -> None:
        """Take up what a router said of a search, and make the same one here."""
        stages = {name: float(answer["timings_ms"][name]) for name in STAGES}
        self._spent["encode"].append(stages["encode"])
        self._spent["front"].append(end_to_end_ms - sum(stages.values()))
        self._search(question)

    def forget(self) -> None:
        """What was noted so far does not count."""
        self._spent.clear()

    def service_times(self) -> dict[str, Any]:
        """In the form that the simulation reads."""
        names = ("encode", "front", "call", "shortlist", "rerank")
        times: dict[str, Any] = {f"{name}_ms": [round(one, 4) for one in self._spent[name]] for name in names}
        # The reranking that was timed is of so many of the candidates as a shard scores on average.
        one = statistics.median(self._spent["rerank one"])
        return {"candidates": self._share, "shortlisted": CANDIDATES, "rerank_one_ms": one, **times}

    def _search(self, question: str) -> None:
        """Two steps, each asked of all shards at once as a router does, and the scoring of one picture alone."""
        request = TextSearchRequest(query=question, model=self._matcher.name)
        with torch.inference_mode():
            ((texts, embedding),) = encoded_sentences(self._matcher, [question])
        vector, sent = embedding.float().cpu().numpy(), SentTexts.of(texts)
        opened = self._ask("shortlist", "open_shortlist", [(request, vector, None) for _ in self._replicas])
        words = TextStatistics.total([one.state.texts for one in opened])
        named = [[one.name for one in answer.ranking.passing] for answer in opened]
        scored = [(request, names[: self._share], sent, request.k, words) for names in named]
        self._ask("rerank", "score_pictures", scored)
        self._ask("rerank one", "score_pictures", [(request, names[:1], sent, 1, words) for names in named])

    def _ask(self, step: str, method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        running = [one.begin(method, *given) for one, given in zip(self._replicas, arguments, strict=True)]
        wait(running, CALL_S)
        answers = []
        for future in running:
            outcome, total = future.result()
            if outcome.problem is not None:
                raise outcome.problem
            self._spent[step].append(1000 * outcome.seconds)
            self._spent["call"].append(1000 * (total - outcome.seconds))
            answers.append(outcome.value)
        return answers


class _TimedReplica(RemoteReplica):
    """A replica whose answers say how long they took, here and there."""

    def __init__(self, shard: int) -> None:
        super().__init__(shard, 0)

    def begin(self, method: str, *arguments: Any) -> "Future[Any]":
        """Begin a call of a search; the answer is an Outcome, and the seconds until it was here."""
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
