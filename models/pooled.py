"""Stage one: one unit vector a picture and a sentence, whose inner product makes the shortlist."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from models.attention import masked_mean, unit
from models.rows import Regions, Words


@dataclass(frozen=True, kw_only=True)
class PooledConfig:
    """Width of the reranker's vectors and of the stage-one embedding made of them."""

    width: int = 1024
    embed_dim: int = 256
    image_width: int | None = None  # of the pictures' vectors, where it is not the words'


class Pooled(nn.Module):
    """Mean of the vectors, one linear layer a side, unit length; trained by a ranking loss of its own."""

    def __init__(self, config: PooledConfig) -> None:
        super().__init__()
        self.config = config
        self.image = nn.Linear(config.image_width or config.width, config.embed_dim, bias=False)
        self.text = nn.Linear(config.width, config.embed_dim, bias=False)
        nn.init.orthogonal_(self.image.weight)
        if config.image_width is None:
            # Both sides start as the same projection, so that at first the embeddings compare as the means do.
            self.text.load_state_dict(self.image.state_dict())

    def embed_images(self, projected: Regions) -> Float[Tensor, "K E"]:
        """Unit embeddings of pictures."""
        return unit(self.image(masked_mean(projected.vectors, projected.mask)))

    def embed_texts(self, words: Words) -> Float[Tensor, "Q E"]:
        """Unit embeddings of sentences."""
        return unit(self.text(masked_mean(words.vectors, words.mask)))
