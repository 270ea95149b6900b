"""The optimizer and the course of its learning rate, as a recipe names them."""

from torch.nn import Module
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD, Adadelta, AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler, MultiStepLR, OneCycleLR

from models.matching.matcher import SingleMatcher
from models.training.recipes import Recipe


def optimizer_for(recipe: Recipe, matcher: Module) -> Optimizer:
    """The recipe's optimizer over all weights; those that have no gradient stay as they are."""
    rate, decay = recipe.learning_rate, recipe.weight_decay
    match recipe.optimizer:
        case "adamw":
            return AdamW(matcher.parameters(), lr=rate, weight_decay=decay)
        case "adadelta":
            return Adadelta(matcher.parameters(), lr=rate, weight_decay=decay)
        case "sgd":
            return SGD(matcher.parameters(), lr=rate, weight_decay=decay, momentum=recipe.momentum, nesterov=True)


def schedule_for(recipe: Recipe, optimizer: Optimizer, steps_an_epoch: int) -> LRScheduler:
    """The learning rate of every step: one cycle up and down, or a tenth after each of the recipe's epochs."""
    total = recipe.warmup_steps + recipe.epochs * steps_an_epoch
    if recipe.decay_after is None:
        return OneCycleLR(optimizer, recipe.learning_rate, total_steps=total + 1, pct_start=min(0.1, 100 / total))
    milestones = [recipe.warmup_steps + epochs * steps_an_epoch for epochs in recipe.decay_after]
    return MultiStepLR(optimizer, milestones, gamma=0.1)


def clip(recipe: Recipe, matcher: SingleMatcher) -> None:
    """Limit the length of the gradient; of stage one's on its own where nothing else learns from it."""
    for part in [matcher] if recipe.stage_one == "together" else [matcher.reranker, matcher.pooled]:
        clip_grad_norm_(list(part.parameters()), recipe.clip)
