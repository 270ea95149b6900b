"""The shards that answer a query, with their replicas and states.

States are read once per query: in a thread while the question is encoded, or together with the query's first step.
"""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from index.catalog.text.statistics import TextStatistics
from service.cluster.messages import FirstAnswer, Floats, NewerPlacement, SentTexts, ShardLost, ShardState
from service.cluster.routing.fan_out import FanOut
from service.cluster.routing.one_round_trip import local_candidates
from service.cluster.shards.search import ShardSearch
from service.search.requests import SearchRequest

T = TypeVar("T")


class TooFewShards(ShardLost):
    """No shard answers, or one does not and the request wants all, so that a retry without it is no use."""


@dataclass(frozen=True)
class OpenShards:
    """The shards that answer a query, out of `num_shards`."""

    states: Mapping[int, ShardState]
    num_shards: int
    chosen: dict[int, str]
    """Names of the replicas that all steps of the query ask, by shard."""

    @property
    def version(self) -> str:
        """The versions of all shards, joined; empty for one that does not answer."""
        return "|".join(self.states[n].version if n in self.states else "" for n in range(self.num_shards))

    @property
    def statistics(self) -> TextStatistics | None:
        """The statistics of the question's words in the texts of all shards; None where texts are not searched."""
        parts = [state.texts for state in self.states.values() if state.texts is not None]
        return TextStatistics.total(parts) if parts else None


class Opening:
    """The shards of one query, except those given up. They are asked when first needed, or by `begin`."""

    def __init__(self, fan_out: FanOut, request: SearchRequest, without: Collection[int]) -> None:
        self._fan_out, self._request, self._without = fan_out, request, without
        self._begun: Future[OpenShards] | None = None
        self._opened: OpenShards | None = None

    def begin(self) -> None:
        """Read the states in a thread."""
        self._begun = self._fan_out.threads.submit(self._states)

    def result(self) -> OpenShards:
        """The shards that answer. Raises TooFewShards where none does, or not all and the request wants all;
        ViewNotBuilt or NotReady where a shard does."""
        if self._opened is None:
            self._opened = self._states() if self._begun is None else self._begun.result()
        return self._opened

    def first_answers(self, embedding: Floats, texts: SentTexts) -> dict[int, FirstAnswer] | None:
        """Each shard's first answer to a sentence, given its [1, E] embedding and its encoding.

        None where the states are already known or being read. Raises what `result` does.
        """
        if self._begun is not None or self._opened is not None:
            return None
        answers, num_shards, chosen = self._ask(ShardSearch.first_answer, self.num_scored_first, embedding, texts)
        self._opened = OpenShards({shard: answer.state for shard, answer in answers.items()}, num_shards, chosen)
        return answers

    @property
    def num_scored_first(self) -> int:
        """The number of best pictures that a shard scores at once; a shard rarely holds more of the overall best."""
        return local_candidates(self._request.shortlist, max(1, len(self._fan_out.replicas) - len(self._without)))

    def _states(self) -> OpenShards:
        return OpenShards(*self._ask(ShardSearch.state))

    def _ask(self, method: Callable[..., T], *arguments: object) -> tuple[dict[int, T], int, dict[int, str]]:
        """The answers of the shards, the number of shards, and the names of the replicas that answered; asked again
        where there are new shards. Raises TooFewShards as `result`."""
        try:
            return self._ask_known(method, *arguments)
        except NewerPlacement:  # now the fan-out knows the new shards, and asks them, too
            return self._ask_known(method, *arguments)

    def _ask_known(self, method: Callable[..., T], *arguments: object) -> tuple[dict[int, T], int, dict[int, str]]:
        num_shards = len(self._fan_out.replicas)
        shards, chosen = [shard for shard in range(num_shards) if shard not in self._without], dict[int, str]()
        answers = self._fan_out.ask(method, dict.fromkeys(shards, (self._request, *arguments)), chosen)
        if not answers or (len(answers) < num_shards and not self._request.partial):
            raise TooFewShards(f"{num_shards - len(answers)} of {num_shards} shards do not answer; try again shortly.")
        return answers, num_shards, chosen
