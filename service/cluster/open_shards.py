"""The shards that a query is asked of: which replicas answer it, and in which state they are."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from index.text_statistics import ScoredText, TextStatistics
from service.cluster.fan_out import FanOut, all_answers
from service.cluster.messages import NewerPlacement, ShardLost, ShardState
from service.search.requests import SearchRequest

TextAnswers = Mapping[int, list[ScoredText]]


class TooFewShards(ShardLost):
    """None of the shards answers, or one does not and the request wants all: there is nothing to try again without."""


@dataclass(frozen=True)
class OpenShards:
    """The shards that answer a query, out of `num_shards`."""

    states: Mapping[int, ShardState]
    num_shards: int
    chosen: dict[int, str]
    """Names of the replicas that the query stays with."""
    matching: "Future[TextAnswers] | None"
    """The look for the question's words in all of them, which goes on meanwhile; None where it is not asked for."""

    @property
    def version(self) -> str:
        """The versions of all shards in a row, nothing for one that does not answer."""
        return "|".join(self.states[n].version if n in self.states else "" for n in range(self.num_shards))


def begin_opening(fan_out: FanOut, request: SearchRequest, without: Collection[int]) -> "Future[OpenShards]":
    """Begin to ask the shards, but for those given up, for their states; the question is encoded meanwhile.

    The future fails with ViewNotBuilt, NotReady, TooFewShards.
    """
    return fan_out.threads.submit(_opened, fan_out, request, without)


def _opened(fan_out: FanOut, request: SearchRequest, without: Collection[int]) -> OpenShards:
    try:
        return _asked(fan_out, request, without)
    except NewerPlacement:  # of which the fan-out has heard now: the shards beyond are asked, too
        return _asked(fan_out, request, without)


def _asked(fan_out: FanOut, request: SearchRequest, without: Collection[int]) -> OpenShards:
    num_shards = len(fan_out.replicas)
    asked, chosen = [shard for shard in range(num_shards) if shard not in without], dict[int, str]()
    states = fan_out.ask("state", dict.fromkeys(asked, (request,)), chosen)
    if not states or (len(states) < num_shards and not request.partial):
        raise TooFewShards(f"{num_shards - len(states)} of {num_shards} shards do not answer; try again shortly.")
    return OpenShards(states, num_shards, chosen, _begin_text_matches(fan_out, request, states, chosen))


def _begin_text_matches(
    fan_out: FanOut, request: SearchRequest, states: Mapping[int, ShardState], chosen: dict[int, str]
) -> "Future[TextAnswers] | None":
    parts = [state.texts for state in states.values() if state.texts is not None]
    if not parts:
        return None
    asked = dict.fromkeys(states, (request, TextStatistics.total(parts)))
    return fan_out.threads.submit(all_answers, fan_out, "text_matches", asked, chosen)
