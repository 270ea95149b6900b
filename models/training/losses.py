"""Losses of a training step: ranking losses over a batch of matching pairs, and their choice by a recipe.

Row q and column q of a [Q, Q] score matrix belong together; `same` is True where a row's sentence belongs to a column's
picture, which is then no negative.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from models.batches import ReadSentences, Regions, Words
from models.matching.single_matcher import SingleMatcher
from models.rerankers.base import Images, Reranker, score_pairs
from models.rerankers.blocks import score_in_blocks
from models.rerankers.sman import intra_pair_loss
from models.training.recipes import Recipe

MIN_PROBABILITY = 1e-6  # inside a logarithm, as in CAMP's published code


class TripletScores(NamedTuple):
    """Scores with gradient: of every matching pair, and with its hardest wrong picture and sentence."""

    positive: Float[Tensor, " Q"]
    wrong_image: Float[Tensor, " Q"]
    wrong_sentence: Float[Tensor, " Q"]


def hardest_negatives(scores: Float[Tensor, "Q Q"], same: Bool[Tensor, "Q Q"]) -> tuple[Tensor, Tensor]:
    """Indices [Q] of every sentence's highest-scoring wrong picture, and of every picture's wrong sentence."""
    wrong = scores.masked_fill(same, -torch.inf)
    return wrong.argmax(1), wrong.argmax(0)


def hardest_triplets(
    reranker: Reranker[Images], images: Images, words: Words, same: Bool[Tensor, "Q Q"]
) -> TripletScores:
    """Scores of all matching pairs and of their hardest negatives, in two passes.

    All Q x Q pairs are scored without a graph, then the 3 Q pairs of the loss with one. This is exact, because the
    encoders ran once and scoring has no randomness; memory does not grow with Q squared.
    """
    image_for, sentence_for = hardest_negatives(score_in_blocks(reranker, images, words), same)
    rows = torch.arange(len(words), device=image_for.device)
    scores = score_pairs(
        reranker, images[torch.cat([rows, image_for, rows])], words[torch.cat([rows, rows, sentence_for])]
    )
    return TripletScores(*scores.chunk(3))


def hinge_loss(scores: TripletScores, margin: float) -> Float[Tensor, ""]:
    """Sum over the batch of max(0, margin + negative - positive) for both hardest negatives (SCAN, eq. 12)."""
    negatives = torch.stack([scores.wrong_image, scores.wrong_sentence])
    return (margin + negatives - scores.positive).clamp_min(0).sum()


def uniform_hinge_loss(scores: Float[Tensor, "Q Q"], same: Bool[Tensor, "Q Q"], margin: float) -> Float[Tensor, ""]:
    """Sum over the batch of max(0, margin + negative - positive) for all negatives instead of the hardest.

    All Q x Q scores have gradients.
    """
    positive = scores.diagonal()
    costs = (margin + scores - positive[:, None]).clamp_min(0) + (margin + scores - positive).clamp_min(0)
    return costs.masked_fill(same, 0).sum()


def binary_loss(scores: TripletScores) -> Float[Tensor, ""]:
    """CAMP's loss for scores m in (0, 1), with the sign that its author corrected, summed over the batch.

    For each pair: -2 log m(positive) - log(1 - m(hardest picture)) - log(1 - m(hardest sentence)).
    """
    positive, wrong_image, wrong_sentence = (each.clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY) for each in scores)
    return -(2 * positive.log() + (1 - wrong_image).log() + (1 - wrong_sentence).log()).sum()


def info_nce_loss(scores: Float[Tensor, "Q Q"], same: Bool[Tensor, "Q Q"], temperature: float) -> Float[Tensor, ""]:
    """Mean cross-entropy of the right partner in the batch, in both directions, without a picture's other captions."""
    matching = torch.arange(len(scores), device=scores.device)
    others = same & ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    logits = (scores / temperature).masked_fill(others, -torch.inf)
    return (cross_entropy(logits, matching) + cross_entropy(logits.T, matching)) / 2


def batch_losses(
    matcher: SingleMatcher,
    regions: Regions,
    tokens: ReadSentences,
    pictures: np.ndarray,
    recipe: Recipe,
    is_warmup: bool,
    others: Callable[[Regions, Words], Mapping[str, Float[Tensor, ""]]] | None = None,
) -> dict[str, Float[Tensor, ""]]:
    """A recipe's losses of Q matching pairs: "pooled" of stage one and, except in warm-up, "ranking".

    "pooled" is InfoNCE of the stage-one embeddings, "ranking" the reranker's loss. `pictures` [Q] are the pictures'
    indices, which identify captions of one picture. Except in warm-up, `others` computes further losses by name from
    the encoded regions and words.
    """
    device = matcher.device
    projected, words = encode_regions(matcher, regions, recipe), encode_sentences(matcher, tokens, recipe)
    numbers = torch.as_tensor(pictures, device=device)
    same = numbers[:, None] == numbers
    sentences, images = stage_one_embeddings(matcher, projected, words, recipe)
    losses = {"pooled": info_nce_loss(sentences @ images.T, same, recipe.temperature)}
    if not is_warmup:
        total = ranking_loss(matcher.reranker, matcher.reranker.precompute(projected), words, same, recipe)
        losses["ranking"] = total if recipe.reduction == "sum" else total / len(pictures)
        if others is not None:
            losses.update(others(projected, words))
    return losses


def encode_regions(matcher: SingleMatcher, regions: Regions, recipe: Recipe) -> Regions:
    """The regions' vectors, computed in the recipe's precision, as float32."""
    with _encoder_precision(matcher, recipe):
        projected: Regions = matcher.reranker.project(regions)
    return projected.to(dtype=torch.float32)


def encode_sentences(matcher: SingleMatcher, tokens: ReadSentences, recipe: Recipe) -> Words:
    """The words' vectors, computed in the recipe's precision, as float32."""
    with _encoder_precision(matcher, recipe):
        words = matcher.reranker.encode_texts(tokens)
    return words.to(dtype=torch.float32)


def _encoder_precision(matcher: SingleMatcher, recipe: Recipe) -> torch.autocast:
    """A block of bfloat16 on a GPU. Scores stay in float32, since their small constants vanish in half precision."""
    kind = matcher.device.type
    return torch.autocast(kind, torch.bfloat16, enabled=recipe.mixed_precision and kind == "cuda")


def stage_one_embeddings(
    matcher: SingleMatcher, projected: Regions, words: Words, recipe: Recipe
) -> tuple[Float[Tensor, "Q E"], Float[Tensor, "K E"]]:
    """Embeddings of sentences and of pictures, without gradient for the encoders if stage one is trained apart."""
    if recipe.stage_one == "apart":
        projected = replace(projected, vectors=projected.vectors.detach())
        words = replace(words, vectors=words.vectors.detach())
    return matcher.pooled.embed_texts(words), matcher.pooled.embed_images(projected)


def ranking_loss(
    reranker: Reranker[Images], images: Images, words: Words, same: Bool[Tensor, "Q Q"], recipe: Recipe
) -> Float[Tensor, ""]:
    """The reranker's loss, summed over the batch."""
    if recipe.loss == "info_nce":
        return len(words) * info_nce_loss(reranker.score(images, words), same, recipe.score_temperature)
    if recipe.negatives == "all":
        return uniform_hinge_loss(reranker.score(images, words), same, recipe.margin)
    scores = hardest_triplets(reranker, images, words, same)
    total = binary_loss(scores) if recipe.loss == "binary" else hinge_loss(scores, recipe.margin)
    if recipe.intra_margin is not None:
        total = total + intra_pair_loss(scores.positive, recipe.intra_margin)
    return total
