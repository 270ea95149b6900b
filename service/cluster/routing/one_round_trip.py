"""The number of its candidates that each shard scores at once, so that few searches need a second round trip."""

from functools import lru_cache
from math import exp, lgamma, log, log1p

MISSED = 0.01  # share of searches that lack a candidate which two round trips would have scored


@lru_cache(maxsize=1024)
def local_candidates(candidates: int, shards: int) -> int:
    """The number of its own that a shard reranks at once, so that at most MISSED of all queries lack a candidate.

    The best `candidates` of all lie in shards as balls thrown into urns; the chance of an urn with more than a given
    number of balls is at most the number of urns times that of one (Binomial).
    """
    if shards == 1:
        return candidates
    more = 0.0  # the chance of more than k balls in one urn
    for k in range(candidates - 1, 0, -1):
        more += chance_of(k + 1, candidates, 1 / shards)
        if shards * more > MISSED:
            return k + 1
    return 1


def chance_of(balls: int, candidates: int, share: float) -> float:
    """The chance of `balls` of the candidates in one urn; by logarithms, so that nothing underflows."""
    ways = lgamma(candidates + 1) - lgamma(balls + 1) - lgamma(candidates - balls + 1)
    return exp(ways + balls * log(share) + (candidates - balls) * log1p(-share))
