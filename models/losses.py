"""Ranking losses over a batch of matching pairs: row q and column q of a score matrix belong together."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from models.base import Reranker, score_in_blocks, score_pairs
from models.rows import Rows, Words


def hinge(positive: Float[Tensor, " Q"], *negatives: Float[Tensor, " Q"], margin: float) -> Float[Tensor, ""]:
    """Sum over the batch of max(0, margin + negative - positive), once for every kind of negative (SCAN, eq. 12)."""
    return torch.stack([(margin + negative - positive).clamp_min(0).sum() for negative in negatives]).sum()


def hardest_negatives(scores: Float[Tensor, "Q Q"], same: Bool[Tensor, "Q Q"]) -> tuple[Tensor, Tensor]:
    """For every sentence its best-scored wrong picture, and for every picture its best-scored wrong sentence."""
    wrong = scores.masked_fill(same, -torch.inf)
    return wrong.argmax(1), wrong.argmax(0)


def hardest_hinge(
    reranker: Reranker, images: Rows, words: Words, same: Bool[Tensor, "Q Q"], margin: float
) -> Float[Tensor, ""]:
    """Hinge loss with hardest negatives in two passes: all pairs are scored without a graph, then only the
    3 Q pairs that carry gradient are scored again with one. Exact, because the encoders ran once; memory
    does not grow with Q squared."""
    scores = score_in_blocks(reranker, images, words)
    image_for, sentence_for = hardest_negatives(scores, same)
    own = torch.arange(len(words), device=scores.device)
    pairs = score_pairs(reranker, images[torch.cat([own, image_for, own])], words[torch.cat([own, own, sentence_for])])
    positive, wrong_image, wrong_sentence = pairs.chunk(3)
    return hinge(positive, wrong_image, wrong_sentence, margin=margin)


def info_nce(scores: Float[Tensor, "Q Q"], same: Bool[Tensor, "Q Q"], temperature: float) -> Float[Tensor, ""]:
    """Cross-entropy of the right partner among the batch, both ways; other pairs of one picture are left out."""
    own = torch.arange(len(scores), device=scores.device)
    others = same & ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    logits = (scores / temperature).masked_fill(others, -torch.inf)
    return (cross_entropy(logits, own) + cross_entropy(logits.T, own)) / 2
