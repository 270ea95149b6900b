"""Named, complete training recipes: everything that decides the weights besides the data."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one matcher is trained: stage one alone first, then reranker and stage one together."""

    model: str
    width: int = 1024
    word_dim: int = 300
    embed_dim: int = 256
    least_count: int = 4  # a word must occur this often in the training captions
    batch: int = 128
    warmup_steps: int = 300  # InfoNCE on the stage-one embeddings, before any hardest negative
    epochs: int = 30
    learning_rate: float = 2e-4
    weight_decay: float = 0.0
    clip: float = 2.0
    loss: Literal["hinge", "binary"] = "hinge"  # of the reranker, with hardest negatives
    margin: float = 0.2
    intra_margin: float | None = None  # SMAN's term that keeps a matching pair close
    temperature: float = 0.05
    pooled_weight: float = 1.0  # of the InfoNCE loss beside the reranker's hinge (which is a mean here)
    feature_dropout: float = 0.0
    word_dropout: float = 0.0
    region_dropout: float = 0.0
    averaging: float = 0.999  # decay of the moving average of the weights, which is what is kept
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
