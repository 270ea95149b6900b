"""The optimizer of a recipe, its learning-rate schedule and the clipping of gradients."""

import math
from typing import NamedTuple

from torch.nn import Module
from torch.nn.utils import get_total_norm
from torch.optim import SGD, Adadelta, AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler, MultiStepLR, OneCycleLR

from models.matching.single_matcher import SingleMatcher
from models.training.finite_loss import clip_finite
from models.training.recipes import Recipe


def build_optimizer(recipe: Recipe, matcher: Module) -> Optimizer:
    """The recipe's optimizer over all weights of a matcher; those without a gradient stay unchanged."""
    rate, decay = recipe.learning_rate, recipe.weight_decay
    match recipe.optimizer:
        case "adamw":
            return AdamW(matcher.parameters(), lr=rate, weight_decay=decay)
        case "adadelta":
            return Adadelta(matcher.parameters(), lr=rate, weight_decay=decay)
        case "sgd":
            return SGD(matcher.parameters(), lr=rate, weight_decay=decay, momentum=recipe.momentum, nesterov=True)


def build_schedule(recipe: Recipe, optimizer: Optimizer, steps_per_epoch: int) -> LRScheduler:
    """The recipe's learning-rate schedule: one cycle up and down, or a tenth after each epoch in `decay_after`."""
    total = recipe.total_steps(steps_per_epoch)
    if recipe.decay_after is None:
        rising = min(0.1, 100 / max(1, total))
        if rising * (total + 1) == 1:  # PyTorch would divide by a rise of length 0
            rising = math.nextafter(rising, 1)
        # SGD keeps the recipe's momentum; AdamW's goes down and up again, as in the trials of all its recipes.
        cycles_momentum = recipe.optimizer != "sgd"
        rate = recipe.learning_rate
        return OneCycleLR(optimizer, rate, total_steps=total + 1, pct_start=rising, cycle_momentum=cycles_momentum)
    milestones = [recipe.warmup_steps + epochs * steps_per_epoch for epochs in recipe.decay_after]
    return MultiStepLR(optimizer, milestones, gamma=0.1)


class GradientNorms(NamedTuple):
    """The norms of a step's gradient and of its part for the reranker, which is 0 if that is not trained."""

    total: float
    reranker: float


def clip_gradients(recipe: Recipe, matcher: SingleMatcher) -> GradientNorms:
    """Limit the gradient's norm, apart for stage one's layers if trained apart, and return the norms before."""
    parts = [matcher] if recipe.stage_one == "together" else [matcher.reranker, matcher.pooled]
    reranker = get_total_norm([each.grad for each in matcher.reranker.parameters() if each.grad is not None])
    total = math.hypot(*(clip_finite(part.parameters(), recipe.clip) for part in parts))
    return GradientNorms(total, float(reranker))
