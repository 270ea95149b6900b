"""Linear probing before fine-tuning (Kumar et al., ICLR 2022): a head is fitted on frozen features.

Features are standardised, so that all of them are learnt at the same pace; at the end, mean and deviation are folded
into the head's linear map.
"""

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from models.batches import tiles
from models.training.backbone.sentence_head import SentenceHead, matching_losses
from models.training.caption_targets import CaptionTargets
from models.training.finite_loss import finite_sum
from models.training.logs import Log

PICTURES_A_STEP = 256


@runtime_checkable
class ProbingRecipe(Protocol):
    """The part of a recipe that linear probing needs."""

    @property
    def lead_passes(self) -> int: ...
    @property
    def lead_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...


def fit_maps(
    head: SentenceHead,
    targets: CaptionTargets,
    photographs: Int64[Tensor, " V"],
    features: Float[Tensor, "V F"],
    recipe: ProbingRecipe,
    log: Log,
) -> None:
    """Fit a head's maps and temperatures on the features of V views of photographs."""
    mean, deviation = features.mean(0), features.std(0) + 1e-3
    standard = (features - mean) / deviation
    maps = [*head.project.parameters(), *head.of_sentence.parameters()]
    temperatures = [head.log_text_temperature, head.log_image_temperature]
    optimizer = torch.optim.AdamW(
        [{"params": maps, "weight_decay": recipe.weight_decay}, {"params": temperatures, "weight_decay": 0.0}]
    )
    head.train()
    for number in range(recipe.lead_passes):
        order = torch.randperm(len(features)).to(features.device)
        steps = [order[tile] for tile in tiles(len(order), PICTURES_A_STEP)]
        total = 0.0
        for step, views in enumerate(steps):
            progress = (number + step / len(steps)) / recipe.lead_passes
            for group in optimizer.param_groups:
                group["lr"] = recipe.lead_rate * 0.5 * (1 + math.cos(math.pi * progress))
            losses = matching_losses(head, targets, head.embed_means(standard[views]), photographs[views])
            optimizer.zero_grad(set_to_none=True)
            finite_sum(losses).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += sum(float(loss.detach()) for loss in losses.values())
        log({"step": 0, "lead": number + 1, "matching": total / len(steps)})
    with torch.no_grad():
        head.project.weight.div_(deviation)
        head.project.bias.sub_(head.project.weight @ mean)
