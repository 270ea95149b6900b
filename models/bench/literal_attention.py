"""SCAN, Sum-Max and BFAN in the order of operations of the published code: every attended vector is built.

Sum-Max has no published code; it is the paper's equations 9 and 10 in the same manner.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import leaky_relu

from models.rerankers.bfan import Bfan
from models.rerankers.scan import Scan
from models.rerankers.summax import SumMax

EPSILON = 1e-8


def repeated(sentence: Float[Tensor, "W D"], times: int) -> Float[Tensor, "K W D"]:
    """A copy of the words for every picture."""
    return sentence.unsqueeze(0).repeat(times, 1, 1)


def l2norm(x: Float[Tensor, "K M N"]) -> Float[Tensor, "K M N"]:
    """x / (|x| + 1e-8) along the last axis."""
    return x / (x.pow(2).sum(2, keepdim=True).sqrt() + EPSILON)


def cosine(a: Float[Tensor, "K N D"], b: Float[Tensor, "K N D"]) -> Float[Tensor, "K N"]:
    """Cosines of rows."""
    lengths: Tensor = a.norm(dim=2) * b.norm(dim=2)
    return (a * b).sum(2) / lengths.clamp_min(EPSILON)


def attended(context: Float[Tensor, "K M D"], weights: Float[Tensor, "K N M"]) -> Float[Tensor, "K N D"]:
    """What every query attends to; computed with both sides turned and turned back, as published."""
    return torch.bmm(context.mT, weights.mT.contiguous()).mT


def normalised(raw: Float[Tensor, "K M N"], how: str) -> Float[Tensor, "K M N"]:
    """SCAN's first normalisation, over the queries."""
    if how == "softmax":
        return raw.softmax(2)
    clipped = leaky_relu(raw, 0.1) if how.startswith("clipped") else raw
    return l2norm(clipped) if how.endswith("l2norm") else clipped


def scan(model: Scan, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]) -> Float[Tensor, " K"]:
    """SCAN, in either direction."""
    config, words = model.config, repeated(sentence, len(vectors))
    query, context = (words, vectors) if config.direction == "t2i" else (vectors, words)
    raw = normalised(torch.bmm(context, query.mT), config.normalisation)
    weights = (config.lambda_softmax * raw.mT.contiguous()).softmax(2)
    relevance = cosine(query, attended(context, weights))
    if config.pooling == "LogSumExp":
        raised = (config.lambda_lse * relevance).exp()
        scores: Tensor = raised.sum(1).log() / config.lambda_lse
        return scores
    pools: dict[str, Callable[[Tensor, int], Tensor]] = {"Max": torch.amax, "Sum": torch.sum, "Mean": torch.mean}
    return pools[config.pooling](relevance, 1)


def summax(model: SumMax, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]) -> Float[Tensor, " K"]:
    """Every query's best partner, summed."""
    similarity = torch.bmm(vectors, repeated(sentence, len(vectors)).mT)
    over_partners, over_queries = (1, 1) if model.config.direction == "t2i" else (2, 1)
    return similarity.amax(over_partners).sum(over_queries)


def focal(model: Bfan, query: Float[Tensor, "K N D"], context: Float[Tensor, "K M D"]) -> Float[Tensor, "K N"]:
    """Relevance of every query in one of BFAN's directions; every pair of fragments is compared."""
    raw = torch.bmm(context, query.mT)
    if model.config.similarity == "cosine":
        raw = raw / (context.norm(dim=2)[:, :, None] * query.norm(dim=2)[:, None]).clamp_min(EPSILON)
    else:
        raw = l2norm(leaky_relu(raw, 0.1))
    weights = (model.config.lambda_softmax * raw.mT.contiguous()).softmax(2)
    if model.config.focal == "prob":
        each, other = weights.unsqueeze(3), weights.unsqueeze(2)
        gains = ((each - other) * other.sqrt()).sum(3)
    else:
        gains = weights.shape[2] * weights - weights.sum(2, keepdim=True)
    kept = torch.where(gains > 0, weights, 0)
    return cosine(query, attended(context, kept / kept.sum(2, keepdim=True)))


def bfan(model: Bfan, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]) -> Float[Tensor, " K"]:
    """BFAN's two directions added."""
    words = repeated(sentence, len(vectors))
    return focal(model, words, vectors).mean(1) + focal(model, vectors, words).mean(1)
