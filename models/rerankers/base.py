"""What every reranker is: two encoders and a score, with all that needs no partner done beforehand."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.batches import Regions, Rows, Tokens, Words, tiles


@dataclass(frozen=True)
class Explanation:
    """Why Q sentences and K pictures scored what they did; None where a model has no exact answer."""

    kind: str  # "words attend regions", "regions attend words" or "weights"
    attention: Float[Tensor, "Q K W R"] | None = None
    contributions: Float[Tensor, "Q K W"] | None = None  # of each word; they add up to the score
    word_weights: Float[Tensor, "Q K W"] | None = None
    region_weights: Float[Tensor, "Q K R"] | None = None


def raised(told: Explanation, by: Float[Tensor, "Q K"], words: Words) -> Explanation:
    """The same told of scores that are higher by a number for each pair: every word has an even share in it."""
    if told.contributions is None:
        return told
    share = by[:, :, None] / words.mask.sum(1)[:, None, None]
    return replace(told, contributions=(told.contributions + share).masked_fill(~words.mask[:, None], 0))


class Reranker(nn.Module, ABC):
    """A cross-attention matching model. Padding never changes a score; values go in and out, no state is kept."""

    config: Any  # the frozen dataclass of its own options
    images_type: ClassVar[type[Rows]]  # what `precompute` returns and a store keeps
    block: ClassVar[tuple[int, int]] = (50, 16)  # pictures x sentences that `score_in_blocks` gives to `score` at once
    projects: ClassVar[bool] = True  # False: its layers read raw features, which `project` leaves as wide as they are
    region_encoder: nn.Module  # Regions of raw features -> Regions of vectors
    sentence_encoder: nn.Module  # Tokens -> Words

    def project(self, regions: Regions) -> Regions:
        """Raw region features to the vectors that the model attends to."""
        projected = self.region_encoder(regions)
        assert isinstance(projected, Regions)
        return projected

    @abstractmethod
    def precompute(self, projected: Regions) -> Rows:
        """All of an image's side that needs no text (SPEED.md's records): one `images_type`."""

    def encode_images(self, regions: Regions) -> Rows:
        """Raw region features to encoded images."""
        return self.precompute(self.project(regions))

    def encode_texts(self, tokens: Tokens) -> Words:
        """Word ids to encoded words."""
        words = self.sentence_encoder(tokens)
        assert isinstance(words, Words)
        return words

    def prepared(self, words: Words) -> Words:
        """The same words with all that `score` finds of a sentence whatever the picture, found once for many blocks."""
        return words

    @abstractmethod
    def score(self, images: Rows, words: Words) -> Float[Tensor, "Q K"]:
        """Score of every sentence with every picture; higher matches better."""

    @abstractmethod
    def explain(self, images: Rows, words: Words) -> Explanation:
        """What the scores of all pairs are made of."""


@torch.no_grad()
def score_in_blocks(
    reranker: Reranker,
    images: Rows,
    words: Words,
    image_block: int | None = None,
    text_block: int | None = None,
) -> Float[Tensor, "Q K"]:
    """`score` for many, memory bounded by a block; sentences go by length so that little is padding.

    The usual block keeps its similarities inside the processor's cache (16 sentences of 14 words x 50 pictures of 36
    regions are 1.6 MB); a model that holds whole vectors of every pair has a smaller one.
    """
    pictures, sentences = reranker.block
    lengths = words.mask.sum(1)
    order = lengths.argsort(stable=True)
    # Half precision is for computing, not for comparing scores.
    dtype = torch.promote_types(words.vectors.dtype, torch.float32)
    scores = torch.empty(len(words), len(images), dtype=dtype, device=words.mask.device)
    for block in tiles(len(words), text_block or sentences):
        chosen = order[block]
        width = int(lengths[chosen].max())
        part = words[chosen]
        part = reranker.prepared(Words(part.vectors[:, :width], part.mask[:, :width]))
        for tile in tiles(len(images), image_block or pictures):
            scores[chosen, tile] = reranker.score(images[tile], part).to(dtype)
    return scores


def score_pairs(reranker: Reranker, images: Rows, words: Words) -> Float[Tensor, " P"]:
    """Scores of P aligned pairs, with gradient: image p with sentence p alone."""
    names = list(images.tensors())

    def one(tensors: tuple[Tensor, ...], vectors: Tensor, mask: Tensor) -> Tensor:
        image = type(images)(**{name: tensor[None] for name, tensor in zip(names, tensors, strict=True)})
        return reranker.score(image, Words(vectors[None], mask[None]))[0, 0]

    scores = torch.func.vmap(one)(tuple(images.tensors().values()), words.vectors, words.mask)
    assert isinstance(scores, Tensor)
    return scores
