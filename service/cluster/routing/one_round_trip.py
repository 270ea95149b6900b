"""The number of candidates that each shard scores in the first round trip, so that few searches need a second."""

from functools import lru_cache
from math import exp, lgamma, log, log1p

MISSED = 0.01  # share of searches that lack a candidate after the first round trip


@lru_cache(maxsize=1024)
def local_candidates(candidates: int, shards: int) -> int:
    """The number of candidates that each shard reranks at once, so that at most MISSED of all queries lack one.

    The best `candidates` are distributed over shards like balls over urns. The chance that any urn has more than k
    balls is at most the number of urns times that of one urn, which is binomial (union bound).
    """
    if shards == 1:
        return candidates
    tail = 0.0  # the chance of more than k balls in one urn
    for k in range(candidates - 1, 0, -1):
        tail += chance_of(k + 1, candidates, 1 / shards)
        if shards * tail > MISSED:
            return k + 1
    return 1


def chance_of(balls: int, candidates: int, share: float) -> float:
    """The chance of exactly `balls` of the candidates in one urn, computed in logarithms to avoid underflow."""
    ways = lgamma(candidates + 1) - lgamma(balls + 1) - lgamma(candidates - balls + 1)
    return exp(ways + balls * log(share) + (candidates - balls) * log1p(-share))
