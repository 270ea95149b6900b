"""Stage one: a unit vector for each picture and sentence, whose inner products make the shortlist.

With a hubness correction of stage one, `hubness.py` adds one or two numbers to these vectors.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from models.batches import Regions, Words
from models.rerankers.attention import EPSILON, l2_norm, l2_normalise, masked_mean, zero_padded


@dataclass(frozen=True, kw_only=True)
class StageOneConfig:
    """Width of the reranker's vectors and of the stage-one embeddings made of them."""

    width: int = 1024
    embed_dim: int | None = None  # None: the mean itself, without a layer
    image_width: int | None = None  # of the pictures' vectors, if it differs from the words'

    @property
    def region_width(self) -> int:
        """Width of the pictures' vectors."""
        return self.image_width or self.width

    @property
    def output_width(self) -> int:
        """Width E of the embeddings."""
        return self.embed_dim or self.width


class StageOneHead(nn.Module):
    """Mean pooling to unit length, with or without a linear layer on each side; trained by a separate ranking loss.

    Without layers, the stage-one loss pulls a picture's regions and its words together, which a reranker that compares
    them needs. Separate layers on each side learn to match instead of the vectors below them (docs/quality.md).
    """

    def __init__(self, config: StageOneConfig) -> None:
        super().__init__()
        self.config = config
        same_width = config.region_width == config.width
        self.image = _layer(
            config.region_width, config.output_width, needed=config.embed_dim is not None or not same_width
        )
        self.text = _layer(config.width, config.output_width, needed=config.embed_dim is not None)

    def embed_images(self, projected: Regions) -> Float[Tensor, "K E"]:
        """Unit embeddings of pictures."""
        return l2_normalise(self.image(masked_mean(projected.vectors, projected.mask)))

    def embed_texts(self, words: Words) -> Float[Tensor, "Q E"]:
        """Unit embeddings of sentences."""
        return l2_normalise(self.text(masked_mean(words.vectors, words.mask)))

    def parts_of_images(self, projected: Regions) -> Float[Tensor, "K R E"]:
        """The part of each region in its picture's embedding; the parts of all regions add up to it."""
        return _parts(self.image, projected.vectors, projected.mask)

    def parts_of_texts(self, words: Words) -> Float[Tensor, "Q W E"]:
        """The part of each word in its sentence's embedding; the parts of all words add up to it."""
        return _parts(self.text, words.vectors, words.mask)

    def terms_of_cosines(
        self, words: Words, embeddings: Float[Tensor, "K E"], regions: Regions | None
    ) -> tuple[Float[Tensor, "Q K W"], Float[Tensor, "Q K W R"] | None]:
        """Contributions of words, and shares of words and regions, to the cosines of sentences with pictures.

        They are exact: both embeddings are sums of a part for each word or region. `embeddings` are the pictures' as
        stored, with rounding; shares are None without regions.
        """
        of_words = self.parts_of_texts(words)
        contributions = (of_words @ embeddings.T).mT
        if regions is None:
            return contributions, None
        shares = torch.einsum("qwe,kre->qkwr", of_words, self.parts_of_images(regions))
        # The rounding difference is spread over the regions.
        rounding = (contributions - shares.sum(3)) / regions.mask.sum(1).clamp_min(1)[:, None]
        return contributions, shares + rounding.unsqueeze(3).masked_fill(~regions.mask[:, None], 0)


def _parts(layer: nn.Module, vectors: Float[Tensor, "N M D"], mask: Bool[Tensor, "N M"]) -> Float[Tensor, "N M E"]:
    # The layer has no bias, so that its output for a mean is the mean of its outputs.
    outputs: Tensor = layer(zero_padded(vectors, mask)) / mask.sum(1).clamp_min(1)[:, None, None]
    return outputs / (l2_norm(outputs.sum(1)) + EPSILON).unsqueeze(1)


def _layer(width: int, dim: int, needed: bool) -> nn.Linear | nn.Identity:
    if not needed:
        return nn.Identity()
    layer = nn.Linear(width, dim, bias=False)
    nn.init.orthogonal_(layer.weight)
    return layer
