"""The recipe of a backbone's fine-tuning on captioned photographs, and the fields that it shares with others."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PhotographRecipe:
    """The part of a recipe that decides the photographs and crops of each step."""

    backbone: str
    side: int = 224
    """Pixels per side to which every picture is stretched."""
    batch: int = 64
    """Photographs per step."""
    epochs: int
    """Passes over the photographs, each with different crops."""
    least_crop: float
    """The least side of a crop, as a share of the photograph's."""
    weight_decay: float
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the numbers. Raises ValueError for one out of range."""
        for name, least in (("batch", 2), ("epochs", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be {least} or more, not {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class BackboneRecipe(PhotographRecipe):
    """The hyper-parameters of a fine-tuning; with the same photographs they give the same backbone."""

    backbone: str = "mobilenet-v2"
    matching: str = "scan-t2i-avg-flickr8k"
    """The recipe of the matcher whose losses train the backbone: its sizes and dropouts."""
    lead_steps: int = 500
    """Steps of the encoders alone, on unchanged pictures, before the backbone is trained too."""
    lead_rate: float = 1e-3
    epochs: int = 4
    rate: float = 3e-4
    """Learning rate of backbone and encoders, which rises over a seventh of the steps, then falls."""
    weight_decay: float = 1e-3
    clip: float = 2.0
    frozen_layers: int = 5
    """Number of first layers that are frozen: their maps are large, and edges and colours need no tuning."""
    least_crop: float = 0.65
    save_every: int = 25


@dataclass(frozen=True, kw_only=True)
class SentenceRecipe(PhotographRecipe):
    """The part of a recipe that trains photographs towards the vectors of sentences."""

    backbone: str = "efficientnet-lite2"
    least_crop: float = 0.5
    weight_decay: float = 0.05
    temperature: float = 0.07
    """The initial temperature of both directions."""
    own_share: float = 0.8
    """The share of a target for a picture's own captions."""
    neighbours: float = 0.1
    """Temperature of the targets of other captions."""
    dropout: float = 0.2
    """Dropout of the mean of the last map."""
