"""The number of its candidates that each shard scores at once, so that few searches need a second round trip."""

from functools import lru_cache

MISSED = 0.01  # share of searches that lack a candidate which two round trips would have scored


@lru_cache(maxsize=1024)
def local_candidates(candidates: int, shards: int, missed: float = MISSED) -> int:
    """The number of its own that a shard reranks at once, so that at most this share of queries lacks a candidate.

    The best `candidates` of all lie in shards as balls thrown into urns; the chance of an urn with more than so many
    balls is at most the number of urns times that of one (Binomial).
    """
    if shards == 1:
        return candidates
    share = 1 / shards
    chances = [(1 - share) ** candidates]  # of k balls in one urn: each by the one before, so that nothing overflows
    for k in range(1, candidates + 1):
        chances.append(chances[-1] * (candidates - k + 1) / k * share / (1 - share))
    for k in range(1, candidates):
        if shards * sum(chances[k + 1 :]) <= missed:
            return k
    return candidates
