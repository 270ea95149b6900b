"""Named, complete training recipes: everything that decides the weights besides the data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one matcher is trained: stage one alone first, then reranker and stage one together."""

    model: str
    options: Mapping[str, Any] = field(default_factory=dict)  # of the model, besides what its name stands for
    starts_from: str | None = None  # the recipe whose weights it goes on from; None: random ones
    trained: tuple[str, ...] = ()  # the reranker's parts that learn; all where none is named
    width: int = 1024
    word_dim: int = 300
    embed_dim: int | None = None  # of stage one; None: the mean-pooled vectors as they are
    least_count: int = 4  # a word must occur this often in the training captions
    batch: int = 128
    warmup_steps: int = 300  # InfoNCE on the stage-one embeddings, before any hardest negative
    epochs: int = 30
    optimizer: Literal["adamw", "sgd", "adadelta"] = "adamw"
    momentum: float = 0.9  # of sgd
    learning_rate: float = 2e-4
    decay_after: tuple[int, ...] | None = None  # epochs after which the rate is a tenth; None: one cycle, up and down
    weight_decay: float = 0.0
    clip: float = 2.0
    loss: Literal["hinge", "binary"] = "hinge"  # of the reranker
    negatives: Literal["hardest", "all"] = "hardest"  # that a hinge keeps away
    reduction: Literal["mean", "sum"] = "mean"  # of the reranker's loss over a batch
    margin: float = 0.2
    intra_margin: float | None = None  # SMAN's term that keeps a matching pair close
    temperature: float = 0.05
    pooled_weight: float = 0.3  # of the InfoNCE loss beside the reranker's
    stage_one: Literal["together", "apart"] = "together"  # apart: the encoders learn nothing from stage one's loss
    feature_dropout: float = 0.0
    word_dropout: float = 0.0
    region_dropout: float = 0.0
    averaging: float = 0.995  # decay of the moving average of the weights, which is what is kept
    patience: int = 4  # validations without a better rsum before it stops
    validate_images: int = 500
    mixed_precision: bool = True  # bfloat16 on a GPU; a CPU computes in float32
    save_every: int = 100  # steps
    seed: int = 0


RECIPES = {
    # Small data over-fits before it under-fits: half the width, strong dropout, few epochs (docs/models.md).
    "scan-t2i-avg-flickr8k": Recipe(
        model="scan-t2i-avg",
        width=512,
        epochs=8,
        learning_rate=7e-4,
        weight_decay=1e-4,
        feature_dropout=0.4,
        word_dropout=0.2,
        region_dropout=0.1,
    ),
}
