"""Targets of pictures among captions and of captions among pictures, which credit similar partners too.

t_c is the vector of caption c, and u_n the normalised mean of those of picture n's captions. For a picture among
captions, `own_share` of the probability belongs to its own captions and the rest is spread by softmax_c(u . t_c /
neighbours); for a caption among pictures, likewise by softmax_n(t . u_n / neighbours). The second parts credit captions
of similar meaning (label smoothing, after Szegedy et al. 2016, but by meaning).
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import normalize, softmax

from models.text.bert_encoder import BertEncoder


@runtime_checkable
class TargetRecipe(Protocol):
    """The part of a recipe that the targets need."""

    @property
    def own_share(self) -> float: ...
    @property
    def neighbours(self) -> float: ...


class CaptionTargets:
    """The sentence vectors of all N training captions, and the targets of batches of pictures."""

    def __init__(self, encoder: BertEncoder, captions: Sequence[Sequence[str]], recipe: TargetRecipe) -> None:
        """Embed the `captions` of each picture."""
        self._recipe = recipe
        self.vectors = encoder.embed([caption for texts in captions for caption in texts])
        owners = [number for number, texts in enumerate(captions) for _ in texts]
        self.image_of = torch.tensor(owners)
        sums = torch.zeros(len(captions), self.vectors.shape[1]).index_add(0, self.image_of, self.vectors.cpu())
        self.means = normalize(sums, dim=1)

    def to(self, device: torch.device) -> "CaptionTargets":
        """Move the vectors to the device of the training."""
        self.vectors, self.image_of, self.means = (
            part.to(device) for part in (self.vectors, self.image_of, self.means)
        )
        return self

    def captions_of(self, pictures: Int64[Tensor, " K"]) -> Int64[Tensor, " Q"]:
        """The captions of a batch's pictures, each once, in their order."""
        return torch.isin(self.image_of, pictures).nonzero()[:, 0]

    def of_images(
        self, pictures: Int64[Tensor, " K"], among: Int64[Tensor, " N"] | slice = slice(None)
    ) -> Float[Tensor, "K N"]:
        """The target distribution of each picture over captions: all, or those in `among`, which include its own."""
        own = (self.image_of[among] == pictures[:, None]).float()
        near = softmax(self.means[pictures] @ self.vectors[among].T / self._recipe.neighbours, 1)
        return self._mixed(own / own.sum(1, keepdim=True), near)

    def of_captions(self, captions: Int64[Tensor, " Q"], pictures: Int64[Tensor, " K"]) -> Float[Tensor, "Q K"]:
        """The target distribution of each of the captions over a batch's pictures."""
        own = (self.image_of[captions, None] == pictures).float()
        own = own / own.sum(1, keepdim=True)  # a picture may be there in several views
        return self._mixed(own, softmax(self.vectors[captions] @ self.means[pictures].T / self._recipe.neighbours, 1))

    def _mixed(self, own: Tensor, near: Tensor) -> Tensor:
        return self._recipe.own_share * own + (1 - self._recipe.own_share) * near
