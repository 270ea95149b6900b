"""What a batch is trained for: losses of the reranker and of stage one, as a recipe names them."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.batches import Regions, Tokens, Words
from models.matching.matcher import SingleMatcher
from models.rerankers.base import Images, Reranker
from models.rerankers.sman import intra_pair_loss
from models.training.losses import binary, hardest_pairs, hinge, info_nce, uniform_hinge
from models.training.recipes import Recipe


def batch_losses(
    matcher: SingleMatcher, regions: Regions, tokens: Tokens, rows: np.ndarray, recipe: Recipe, warming: bool
) -> dict[str, Float[Tensor, ""]]:
    """InfoNCE of the stage-one embeddings (a mean) and, unless `warming`, the reranker's loss."""
    device = matcher.device
    # bfloat16 for the encoders where it pays, on a GPU. Scores stay float32: their small constants vanish in half.
    with torch.autocast(device.type, torch.bfloat16, enabled=recipe.mixed_precision and device.type == "cuda"):
        projected = matcher.reranker.project(regions)
        words = matcher.reranker.encode_texts(tokens)
    projected, words = projected.to(dtype=torch.float32), words.to(dtype=torch.float32)
    image_rows = torch.as_tensor(rows, device=device)
    same = image_rows[:, None] == image_rows
    losses = {"pooled": info_nce(stage_one_scores(matcher, projected, words, recipe), same, recipe.temperature)}
    if not warming:
        images = matcher.reranker.precompute(projected)
        total = ranking_loss(matcher.reranker, images, words, same, recipe)
        losses["ranking"] = total if recipe.reduction == "sum" else total / len(rows)
    return losses


def stage_one_scores(matcher: SingleMatcher, projected: Regions, words: Words, recipe: Recipe) -> Float[Tensor, "Q Q"]:
    """Inner products of the batch's embeddings."""
    if recipe.stage_one == "apart":
        projected = replace(projected, vectors=projected.vectors.detach())
        words = replace(words, vectors=words.vectors.detach())
    return matcher.pooled.embed_texts(words) @ matcher.pooled.embed_images(projected).T


def ranking_loss(
    reranker: Reranker[Images], images: Images, words: Words, same: Bool[Tensor, "Q Q"], recipe: Recipe
) -> Float[Tensor, ""]:
    """The reranker's loss, summed over the batch."""
    if recipe.negatives == "all":
        return uniform_hinge(reranker.score(images, words), same, recipe.margin)
    pairs = hardest_pairs(reranker, images, words, same)
    total = binary(pairs) if recipe.loss == "binary" else hinge(pairs, recipe.margin)
    if recipe.intra_margin is not None:
        total = total + intra_pair_loss(pairs.positive, recipe.intra_margin)
    return total
