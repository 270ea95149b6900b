"""Hubness correction: pictures and sentences that score high with almost anything have their scores lowered.

After cross-domain similarity local scaling, CSLS (Conneau et al. 2018, "Word translation without parallel data",
section 2.3): off every score is taken how similar the picture, and how similar the sentence, is to its nearest
neighbours in a bank of typical sentences. A bank's entries are single vectors: centroids of the training sentences'
mean word vectors, from which no sentence can be read. A picture's offset is computed once, when it is encoded, and
kept in its record; a sentence's once a request.

Stage one can be corrected too, by one more number in each embedding: with pictures as [e, -offset] and sentences as
[t, 1] the inner product is the cosine minus the picture's offset, and an index for inner products needs nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from models.batches import Regions, Rows, Words
from models.matching.stage_one import StageOneHead
from models.rerankers.attention import l2_normalise
from models.rerankers.base import Reranker, score_in_blocks

K_MEANS_ITERATIONS = 15  # hardly a sentence changes its centroid after these

Similarity = Literal["embeddings", "scores"]


@dataclass(frozen=True, kw_only=True)
class HubnessConfig:
    """An offset is the weight times the mean similarity to the nearest `neighbours` of the bank.

    The similarity is the cosine of stage one's embeddings, or the reranker's own score: a score that is no sum of
    inner products has hubs of its own, which stage one does not show. Stage one's own correction, of pictures alone,
    always goes by cosines; with a `stage_one_weight` of 0 its embeddings stay as they are.
    """

    image_weight: float
    text_weight: float
    neighbours: int
    similarity: Similarity = "embeddings"
    stage_one_weight: float = 0.0

    def __post_init__(self) -> None:
        weights = self.image_weight, self.text_weight, self.stage_one_weight
        if not (np.isfinite(weights).all() and min(weights) >= 0):
            shown = ", ".join(f"{weight:g}" for weight in weights)
            raise ValueError(f"a hubness correction's weights cannot be below 0: {shown}")
        if self.neighbours < 1:
            raise ValueError(f"a hubness correction needs at least 1 of the nearest neighbours, not {self.neighbours}")


def spherical_k_means(vectors: Float[Tensor, "N D"], count: int, seed: int = 0) -> Float[Tensor, "count D"]:
    """Centroids of groups of vectors of similar direction (Dhillon and Modha 2001); a centroid is its group's mean.

    ValueError where there are fewer vectors than groups.
    """
    if len(vectors) < count:
        raise ValueError(f"the bank is to have {count} typical sentences, and there are {len(vectors)}")
    directions = l2_normalise(vectors)
    start = np.random.default_rng(seed).choice(len(vectors), count, replace=False)
    centroids = vectors[torch.from_numpy(start).to(vectors.device)]
    for _ in range(K_MEANS_ITERATIONS):
        nearest = (directions @ l2_normalise(centroids).T).argmax(1)
        sums = torch.zeros_like(centroids).index_add_(0, nearest, vectors)
        members = nearest.bincount(minlength=count)[:, None]
        centroids = torch.where(members > 0, sums / members.clamp_min(1), centroids)  # an empty group keeps its own
    return centroids


@dataclass(frozen=True)
class SentenceBank:
    """Vectors of C typical sentences in 8 bits a number, as a checkpoint keeps them: vector c is scale c x integers."""

    integers: Int8[Tensor, "C D"]
    scales: Float[Tensor, " C"]

    def __len__(self) -> int:
        return len(self.integers)

    @property
    def width(self) -> int:
        """Width D of the vectors."""
        return self.integers.shape[1]

    @classmethod
    def quantise(cls, vectors: Float[Tensor, "C D"]) -> "SentenceBank":
        """The bank nearest to the vectors, on the CPU."""
        scales = vectors.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / 127
        return cls((vectors / scales[:, None]).round().to(torch.int8).cpu(), scales.cpu())

    def dequantise(self) -> Float[Tensor, "C D"]:
        """The vectors that the integers and scales stand for."""
        return self.integers.float() * self.scales[:, None]

    @classmethod
    def from_tensors(cls, stored: Mapping[str, Tensor]) -> "SentenceBank":
        """A bank from the tensors of its file; ValueError where one is missing."""
        if missing := {"bank", "units"} - stored.keys():
            raise ValueError(f"no bank of sentences: {', '.join(sorted(missing))} missing")
        return cls(stored["bank"], stored["units"])

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of its file, by their names there."""
        return {"bank": self.integers, "units": self.scales}


class HubnessCorrection(nn.Module):
    """The offsets of pictures and sentences that a `SentenceBank` gives. It has no weights of its own to save."""

    def __init__(self, config: HubnessConfig, bank: SentenceBank) -> None:
        super().__init__()
        self.config, self.bank = config, bank
        # A bank's vector is scored as a sentence of one word.
        self.register_buffer("vectors", bank.dequantise()[:, None], persistent=False)
        self.register_buffer("mask", torch.ones(len(bank), 1, dtype=torch.bool), persistent=False)

    def image_offsets(
        self, reranker: Reranker[Any], head: StageOneHead, projected: Regions, images: Rows
    ) -> Float[Tensor, " K"]:
        """The offset of each picture, given as projected regions and as the reranker's encoded pictures."""
        if self.config.similarity == "scores":
            similarities = score_in_blocks(reranker, images, self._typical_sentences()).T
        else:
            similarities = self._cosines(head, head.embed_images(projected))
        return self.config.image_weight * self._mean_of_nearest(similarities)

    def text_offsets(self, reranker: Reranker[Any], head: StageOneHead, words: Words) -> Float[Tensor, " Q"]:
        """The offset of each sentence."""
        if not self.config.text_weight:
            return words.vectors.new_zeros(len(words))
        if self.config.similarity == "scores":
            typical = self._typical_sentences()
            # Words and regions lie in one space: a typical sentence's vector stands for a typical picture's region.
            pictures = reranker.precompute(Regions(typical.vectors, typical.mask))
            similarities = score_in_blocks(reranker, pictures, words, image_block=len(typical))
        else:
            similarities = self._cosines(head, head.embed_texts(words))
        return self.config.text_weight * self._mean_of_nearest(similarities)

    @property
    def extra_dim(self) -> int:
        """How many numbers the embeddings of stage one have more than the head gives: 1 where it is corrected."""
        return int(self.config.stage_one_weight > 0)

    def correct_image_embeddings(self, head: StageOneHead, embeddings: Float[Tensor, "K E"]) -> Float[Tensor, "K S"]:
        """Unit embeddings of pictures; where stage one is corrected, with minus their offset as the last number."""
        if not self.extra_dim:
            return embeddings
        offsets = self.config.stage_one_weight * self._mean_of_nearest(self._cosines(head, embeddings))
        return torch.cat([embeddings, -offsets[:, None]], dim=1)

    def correct_text_embeddings(self, embeddings: Float[Tensor, "Q E"]) -> Float[Tensor, "Q S"]:
        """Unit embeddings of sentences with a one as the last number, where stage one is corrected."""
        return torch.cat([embeddings, embeddings.new_ones(len(embeddings), self.extra_dim)], dim=1)

    def _cosines(self, head: StageOneHead, embeddings: Float[Tensor, "N E"]) -> Float[Tensor, "N C"]:
        """Cosines of unit embeddings with those of the bank."""
        return embeddings @ head.embed_texts(self._typical_sentences()).T

    def _typical_sentences(self) -> Words:
        return Words(self.get_buffer("vectors"), self.get_buffer("mask"))

    def _mean_of_nearest(self, similarities: Float[Tensor, "N C"]) -> Float[Tensor, " N"]:
        nearest = similarities.topk(min(self.config.neighbours, similarities.shape[1]), dim=1).values.mean(1)
        # A picture without a region may have no score: its offset is 0.
        return torch.nan_to_num(nearest, nan=0.0, posinf=0.0, neginf=0.0)
