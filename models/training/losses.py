"""Ranking losses over a batch of matching pairs: row q and column q of a score matrix belong together."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from models.batches import Words
from models.rerankers.base import Images, Reranker, score_in_blocks, score_pairs

CLAMP = 1e-6  # of a probability inside a logarithm, as in CAMP's published code


class Pairs(NamedTuple):
    """Scores that carry gradient: of every matching pair, and of its hardest wrong picture and sentence."""

    positive: Float[Tensor, " Q"]
    wrong_image: Float[Tensor, " Q"]
    wrong_sentence: Float[Tensor, " Q"]


def hardest_negatives(scores: Float[Tensor, "Q Q"], same: Bool[Tensor, "Q Q"]) -> tuple[Tensor, Tensor]:
    """For every sentence its best-scored wrong picture, and for every picture its best-scored wrong sentence."""
    wrong = scores.masked_fill(same, -torch.inf)
    return wrong.argmax(1), wrong.argmax(0)


def hardest_pairs(reranker: Reranker[Images], images: Images, words: Words, same: Bool[Tensor, "Q Q"]) -> Pairs:
    """Two passes: all Q x Q pairs are scored without a graph, then only the 3 Q that carry gradient with one.

    Exact, because the encoders ran once and scoring has no randomness; memory does not grow with Q squared.
    """
    image_for, sentence_for = hardest_negatives(score_in_blocks(reranker, images, words), same)
    own = torch.arange(len(words), device=image_for.device)
    scores = score_pairs(reranker, images[torch.cat([own, image_for, own])], words[torch.cat([own, own, sentence_for])])
    return Pairs(*scores.chunk(3))


def hinge(pairs: Pairs, margin: float) -> Float[Tensor, ""]:
    """Sum over the batch of max(0, margin + negative - positive) for both hardest negatives (SCAN, eq. 12)."""
    negatives = torch.stack([pairs.wrong_image, pairs.wrong_sentence])
    return (margin + negatives - pairs.positive).clamp_min(0).sum()


def uniform_hinge(scores: Float[Tensor, "Q Q"], same: Bool[Tensor, "Q Q"], margin: float) -> Float[Tensor, ""]:
    """The same for all negatives of the batch instead of the hardest; `scores` carry gradient in every place."""
    positive = scores.diagonal()
    costs = (margin + scores - positive[:, None]).clamp_min(0) + (margin + scores - positive).clamp_min(0)
    return costs.masked_fill(same, 0).sum()


def binary(pairs: Pairs) -> Float[Tensor, ""]:
    """CAMP's loss with the sign its author corrected, for scores in (0, 1): -2 log m(own) - log(1 - m(hardest))
    for both kinds, summed over the batch."""
    positive, wrong_image, wrong_sentence = (scores.clamp(CLAMP, 1 - CLAMP) for scores in pairs)
    return -(2 * positive.log() + (1 - wrong_image).log() + (1 - wrong_sentence).log()).sum()


def info_nce(scores: Float[Tensor, "Q Q"], same: Bool[Tensor, "Q Q"], temperature: float) -> Float[Tensor, ""]:
    """Cross-entropy of the right partner among the batch, both ways; other pairs of one picture are left out."""
    own = torch.arange(len(scores), device=scores.device)
    others = same & ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    logits = (scores / temperature).masked_fill(others, -torch.inf)
    return (cross_entropy(logits, own) + cross_entropy(logits.T, own)) / 2
