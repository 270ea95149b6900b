"""Hubness correction: it lowers the scores of pictures and sentences that score high with almost anything.

After cross-domain similarity local scaling, CSLS (Conneau et al. 2018, "Word translation without parallel data",
section 2.3): from every score are subtracted the picture's similarity to its nearest neighbours in a bank of typical
sentences, and the sentence's similarity to its nearest neighbours in a bank of typical pictures, or of sentences if the
checkpoint has no other bank. A picture's offset is computed when it is encoded, and stored in its record; a sentence's
once per request.

Stage one can also be corrected, by additional numbers in each embedding: with pictures as [e, -a, 1] and sentences as
[t, 1, -b] the inner product is the cosine minus the offsets a of the picture and b of the sentence, so that an index
for inner products suffices. If sentences have no offset, the last number is left out.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.batches import Regions, Rows, Words
from models.kernels.interface import RecordKernels, table_kernels
from models.matching.hubness_banks import HubnessBanks, VectorBank
from models.matching.stage_one import StageOneHead
from models.rerankers.base import Reranker
from models.rerankers.blocks import score_in_blocks

Similarity = Literal["embeddings", "scores"]


@dataclass(frozen=True, kw_only=True)
class HubnessConfig:
    """The settings of a correction, whose offsets are a weight times the mean similarity to `neighbours` of a bank.

    The similarity is the cosine of stage one's embeddings, or the reranker's score: a score that is not a sum of inner
    products has different hubs than stage one. Stage one is always corrected by cosines, with `stage_one_weight` for
    pictures and `stage_one_text_weight` for sentences; weights of 0 leave its embeddings unchanged.
    """

    image_weight: float
    text_weight: float
    neighbours: int
    similarity: Similarity = "embeddings"
    stage_one_weight: float = 0.0
    stage_one_text_weight: float = 0.0

    def __post_init__(self) -> None:
        weights = self.image_weight, self.text_weight, self.stage_one_weight, self.stage_one_text_weight
        if not (np.isfinite(weights).all() and min(weights) >= 0):
            shown = ", ".join(f"{weight:g}" for weight in weights)
            raise ValueError(f"a hubness correction's weights cannot be below 0: {shown}")
        if self.neighbours < 1:
            raise ValueError(f"a hubness correction needs at least 1 of the nearest neighbours, not {self.neighbours}")

    @property
    def extra_dim(self) -> int:
        """The number of additional numbers in stage one's embeddings: 2 if sentences are corrected, 1 if only pictures
        are."""
        return 2 if self.stage_one_text_weight else int(self.stage_one_weight > 0)


class _EncodedPictures(NamedTuple):
    """Encoded pictures, with the tensors that they were computed from and the states of these at that time."""

    made_of: list[Tensor]
    states: list[tuple[int, torch.device, torch.dtype]]
    rows: Rows


class HubnessCorrection(nn.Module):
    """The offsets of pictures and sentences by `HubnessBanks`, without weights to save."""

    def __init__(self, config: HubnessConfig, banks: HubnessBanks) -> None:
        super().__init__()
        self.config, self.banks = config, banks
        self._pictures: _EncodedPictures | None = None
        self._embeddings: dict[str, tuple[Tensor, Tensor]] = {}  # bank -> its vectors, and their unit embeddings
        self._keep("sentence", banks.sentences)
        if banks.pictures is not None:
            self._keep("picture", banks.pictures)

    def __getstate__(self) -> dict[str, Any]:
        """The attributes of a copy, without encoded pictures, since the copy's tensors have new versions."""
        return self.__dict__ | {"_pictures": None}

    def _keep(self, name: str, bank: VectorBank) -> None:
        # A bank's entry is scored as a sentence of its vectors as words, or as a picture of them as regions.
        vectors = bank.dequantise()
        self.register_buffer(f"{name}_vectors", vectors, persistent=False)
        self.register_buffer(f"{name}_mask", torch.ones(vectors.shape[:2], dtype=torch.bool), persistent=False)

    def image_offsets(
        self,
        reranker: Reranker[Any],
        head: StageOneHead,
        projected: Regions,
        images: Rows,
        kernels: RecordKernels | None = None,
    ) -> Float[Tensor, " K"]:
        """The offset of each picture, from its projected regions and the reranker's encoded form."""
        if self.config.similarity == "scores":
            typical = self._typical_sentences()
            similarities = score_in_blocks(
                reranker, images, typical, text_block=len(typical), kernels=table_kernels(kernels)
            ).T
        else:
            similarities = self._cosines_with_sentences(head, head.embed_images(projected))
        return self.config.image_weight * self._mean_of_nearest(similarities)

    def text_nearness(
        self, head: StageOneHead, words: Words, embeddings: Float[Tensor, "Q E"] | None = None
    ) -> Float[Tensor, " Q"]:
        """The mean cosine of each sentence's unit embedding (computed from the words if None) with the nearest typical
        pictures; zeros if no offset of sentences needs it."""
        by_cosine = self.config.text_weight and self.config.similarity == "embeddings"
        if not (by_cosine or self.config.stage_one_text_weight):
            return words.vectors.new_zeros(len(words))
        if embeddings is None:
            embeddings = head.embed_texts(words)
        return self._mean_of_nearest(self._cosines_with_pictures(head, embeddings))

    def text_offsets(
        self,
        reranker: Reranker[Any],
        words: Words,
        nearness: Float[Tensor, " Q"],
        kernels: RecordKernels | None = None,
    ) -> Float[Tensor, " Q"]:
        """The offset of each sentence, from its nearness to the banks (`text_nearness`)."""
        if not self.config.text_weight:
            return words.vectors.new_zeros(len(words))
        if self.config.similarity == "scores":
            pictures = self._encoded_pictures(reranker)
            similarities = score_in_blocks(
                reranker, pictures, words, image_block=len(pictures), kernels=table_kernels(kernels)
            )
            nearness = self._mean_of_nearest(similarities)
        return self.config.text_weight * nearness

    def correct_image_embeddings(self, head: StageOneHead, embeddings: Float[Tensor, "K E"]) -> Float[Tensor, "K S"]:
        """[e, -offset, 1] for unit embeddings e of pictures, as far as stage one is corrected."""
        if not self.config.extra_dim:
            return embeddings
        ones = embeddings.new_ones(len(embeddings), self.config.extra_dim - 1)
        return torch.cat([embeddings, -self.stage_one_image_offsets(head, embeddings)[:, None], ones], dim=1)

    def correct_text_embeddings(
        self, embeddings: Float[Tensor, "Q E"], nearness: Float[Tensor, " Q"]
    ) -> Float[Tensor, "Q S"]:
        """[t, 1, -offset] for unit embeddings t of sentences, as far as stage one is corrected."""
        if not self.config.extra_dim:
            return embeddings
        further = [embeddings.new_ones(len(embeddings), 1)]
        if self.config.stage_one_text_weight:
            further.append(-self.stage_one_text_offsets(nearness)[:, None])
        return torch.cat([embeddings, *further], dim=1)

    def stage_one_image_offsets(self, head: StageOneHead, embeddings: Float[Tensor, "K E"]) -> Float[Tensor, " K"]:
        """The stage-one offset of each picture, from its unit embedding."""
        if not self.config.stage_one_weight:
            return embeddings.new_zeros(len(embeddings))
        return self.config.stage_one_weight * self._mean_of_nearest(self._cosines_with_sentences(head, embeddings))

    def stage_one_text_offsets(self, nearness: Float[Tensor, " Q"]) -> Float[Tensor, " Q"]:
        """The stage-one offset of each sentence, from its nearness to the banks (`text_nearness`)."""
        return self.config.stage_one_text_weight * nearness

    def _cosines_with_sentences(self, head: StageOneHead, embeddings: Float[Tensor, "N E"]) -> Float[Tensor, "N C"]:
        """Cosines of unit embeddings with those of the typical sentences."""
        typical = self._embedding_of("sentence", head.text, lambda: head.embed_texts(self._typical_sentences()))
        return embeddings @ typical.T

    def _cosines_with_pictures(self, head: StageOneHead, embeddings: Float[Tensor, "N E"]) -> Float[Tensor, "N C"]:
        """Cosines of unit embeddings with those of the typical pictures, or sentences if there are no pictures."""
        if self.banks.pictures is None:
            return self._cosines_with_sentences(head, embeddings)
        typical = self._embedding_of("picture", head.image, lambda: head.embed_images(self._typical_pictures()))
        return embeddings @ typical.T

    def _embedding_of(self, bank: str, layer: nn.Module, embed: Callable[[], Tensor]) -> Float[Tensor, "C E"]:
        """Unit embeddings of a bank's vectors, cached if the head's layer has no weights."""
        if any(True for _ in layer.parameters()):
            return embed()
        vectors, (source, embeddings) = self.get_buffer(f"{bank}_vectors"), self._embeddings.get(bank, (None, None))
        if embeddings is None or source is not vectors:  # such as after a move to another device or type
            embeddings = embed()
            self._embeddings[bank] = vectors, embeddings
        return embeddings

    def _encoded_pictures(self, reranker: Reranker[Any]) -> Rows:
        """The typical pictures encoded by the reranker, cached until its weights or the bank change."""
        typical = self._typical_pictures()
        made_of = [typical.vectors, *reranker.parameters()]
        if torch.is_grad_enabled() or any(tensor.is_inference() for tensor in made_of):
            rows: Rows = reranker.precompute(typical)
            return rows
        # A change in place increments a tensor's version; device and type reveal moves.
        states = [(tensor._version, tensor.device, tensor.dtype) for tensor in made_of]
        cached = self._pictures
        if cached is None or cached.states != states or not all(map(operator.is_, cached.made_of, made_of)):
            cached = self._pictures = _EncodedPictures(made_of, states, reranker.precompute(typical))
        return cached.rows

    def _typical_sentences(self) -> Words:
        """The typical sentences, of a few words each."""
        return Words(self.get_buffer("sentence_vectors"), self.get_buffer("sentence_mask"))

    def _typical_pictures(self) -> Regions:
        """The typical pictures, of a few projected regions each.

        Without a bank of pictures, sentences replace them, for models whose words and regions are in one space.
        """
        name = "sentence" if self.banks.pictures is None else "picture"
        return Regions(self.get_buffer(f"{name}_vectors"), self.get_buffer(f"{name}_mask"))

    def _mean_of_nearest(self, similarities: Float[Tensor, "N C"]) -> Float[Tensor, " N"]:
        nearest = similarities.topk(min(self.config.neighbours, similarities.shape[1]), dim=1).values.mean(1)
        # A picture without a region may have no score: its offset is 0.
        return torch.nan_to_num(nearest, nan=0.0, posinf=0.0, neginf=0.0)
