"""The recipe of a backbone's fine-tuning on captioned photographs, and the fields that others share with it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PhotographRecipe:
    """The part of a recipe that decides which photographs a step sees, and how."""

    backbone: str
    side: int = 224
    """Pixels a side to which every picture is stretched."""
    batch: int = 64
    """Photographs that are taken together."""
    epochs: int
    """Passes over the photographs, each with other crops."""
    least_crop: float
    """Share of a photograph's sides that a crop has at least."""
    weight_decay: float
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the numbers; ValueError names one out of range."""
        for name, least in (("batch", 2), ("epochs", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be {least} or more, not {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class BackboneRecipe(PhotographRecipe):
    """The hyper-parameters of a fine-tuning; with the same photographs they give the same backbone."""

    backbone: str = "mobilenet-v2"
    matching: str = "scan-t2i-avg-flickr8k"
    """The recipe of the matcher from whose losses the backbone learns: its sizes and drop-outs."""
    lead_steps: int = 500
    """Steps of the encoders alone, on unchanged pictures, before the backbone learns from them."""
    lead_rate: float = 1e-3
    epochs: int = 4
    rate: float = 3e-4
    """Learning rate of backbone and encoders; up in a seventh of the steps, then down."""
    weight_decay: float = 1e-3
    clip: float = 2.0
    frozen_layers: int = 5
    """The first layers, which stay as they are: their maps are large, and edges and colours need no tuning."""
    least_crop: float = 0.65
    save_every: int = 25


@dataclass(frozen=True, kw_only=True)
class SentenceRecipe(PhotographRecipe):
    """The part of a recipe by which photographs learn to be near the vectors of sentences."""

    backbone: str = "efficientnet-lite2"
    least_crop: float = 0.5
    weight_decay: float = 0.05
    temperature: float = 0.07
    """At the start, of both directions."""
    own_share: float = 0.8
    """Of a target, for a picture's own captions."""
    neighbours: float = 0.1
    """Temperature of the targets that other captions get."""
    dropout: float = 0.2
    """Of the mean of the last map."""
