"""Hubs: pictures and sentences that score high with almost anything, and stand before the right ones.

After cross-domain similarity local scaling (Conneau et al. 2018, "Word translation without parallel data", section
2.3): off every score is taken how near the picture, and how near the sentence, comes to the nearest of a bank of
typical sentences. Each of these is one word, the mean of training sentences that are alike, from which none can be
read. What is taken off a picture is found once, when it is encoded, and kept in its record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, make_dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import Regions, Rows, Words
from models.matching.stage_one import Pooled
from models.rerankers.attention import l2_normalise
from models.rerankers.base import Explanation, Reranker, score_in_blocks

HUBNESS = "hubness"
TURNS = 15  # of k-means, after which hardly a sentence changes its centre


By = Literal["embeddings", "scores"]


@dataclass(frozen=True, kw_only=True)
class Hubs:
    """Taken off is so much of the mean of the `best` highest values with the bank, for `pictures` and for `sentences`.

    The values are cosines in stage one, or the reranker's own scores: a score that is no sum of inner products
    has hubs of its own, which stage one knows nothing of.
    """

    pictures: float
    sentences: float
    best: int
    by: By = "embeddings"

    def __post_init__(self) -> None:
        if not (np.isfinite([self.pictures, self.sentences]).all() and min(self.pictures, self.sentences) >= 0):
            raise ValueError(f"what is taken off cannot be below 0: {self.pictures:g}, {self.sentences:g}")
        if self.best < 1:
            raise ValueError(f"best is {self.best}, and must be 1 at least")


def centres(vectors: Float[Tensor, "N D"], count: int, seed: int = 0) -> Float[Tensor, "count D"]:
    """Means of groups of vectors that point alike: spherical k-means (Dhillon and Modha 2001).

    ValueError where there are fewer vectors than groups.
    """
    if len(vectors) < count:
        raise ValueError(f"the bank is to have {count} typical sentences, and there are {len(vectors)}")
    directions = l2_normalise(vectors)
    start = np.random.default_rng(seed).choice(len(vectors), count, replace=False)
    found = vectors[torch.from_numpy(start).to(vectors.device)]
    for _ in range(TURNS):
        nearest = (directions @ l2_normalise(found).T).argmax(1)
        sums = torch.zeros_like(found).index_add_(0, nearest, vectors)
        members = nearest.bincount(minlength=count)[:, None]
        found = torch.where(members > 0, sums / members.clamp_min(1), found)  # an empty group stays where it is
    return found


def packed(bank: Float[Tensor, "C D"]) -> dict[str, Tensor]:
    """A bank in 8 bits a number, and the unit of each vector."""
    units = bank.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / 127
    return {"bank": (bank / units[:, None]).round().to(torch.int8).cpu(), "units": units.cpu()}


def unpacked(stored: Mapping[str, Tensor]) -> Float[Tensor, "C D"]:
    """The bank again, nearly."""
    return stored["bank"].float() * stored["units"][:, None]


@dataclass(frozen=True)
class JudgedWords(Words):
    """Encoded words, and what is taken off the scores of each sentence."""

    hubness: Float[Tensor, " Q"]


class HubCorrected(Reranker[Any]):
    """A trained reranker's score less what picture and sentence score with anything.

    It adds one number to each encoded picture.
    """

    def __init__(self, inner: Reranker[Any], pooled: Pooled, bank: Float[Tensor, "C D"], hubs: Hubs) -> None:
        """`pooled` is the stage-one head of the same matcher; `bank` as wide as the reranker's words.

        ValueError where sentences are to be judged by scores and the reranker's regions are no such vectors.
        """
        super().__init__()
        if hubs.by == "scores" and hubs.sentences and not inner.projects:
            raise ValueError("this model's regions stay as they were found, and are no words: find hubs by embeddings")
        self.config, self.block, self.projects = inner.config, inner.block, inner.projects  # type: ignore[misc]
        self.inner, self.pooled, self.hubs = inner, pooled, hubs
        self.region_encoder, self.sentence_encoder = inner.region_encoder, inner.sentence_encoder
        self.register_buffer("bank", bank[:, None], persistent=False)
        self.register_buffer("one", torch.ones(len(bank), 1, dtype=torch.bool, device=bank.device), persistent=False)
        named = [(field.name, Tensor) for field in fields(inner.images_type)]
        kind = make_dataclass("HubCorrectedImages", [*named, (HUBNESS, Tensor)], bases=(Rows,), frozen=True)
        self.images_type = kind

    def precompute(self, projected: Regions) -> Rows:
        images = self.inner.precompute(projected)
        if self.hubs.by == "scores":
            values = score_in_blocks(self.inner, images, self._typical()).T
        else:
            values = self.pooled.embed_images(projected) @ self.pooled.embed_texts(self._typical()).T
        rows: Rows = self.images_type(**images.tensors(), **{HUBNESS: self.hubs.pictures * self._of_best(values)})
        return rows

    def prepared(self, words: Words) -> JudgedWords:
        return JudgedWords(words.vectors, words.mask, self.of_sentences(words))

    def score(self, images: Rows, words: Words) -> Float[Tensor, "Q K"]:
        inner, hubness = self._apart(images)
        return self.inner.score(inner, words) - hubness - self.of_sentences(words)[:, None]

    def explain(self, images: Rows, words: Words) -> Explanation:
        """The inner model's reasons; what is taken off is taken off all words alike."""
        inner, hubness = self._apart(images)
        explanation: Explanation = self.inner.explain(inner, words)
        return explanation.rescaled(1.0, -hubness - self.of_sentences(words)[:, None], words.mask)

    def of_sentences(self, words: Words) -> Float[Tensor, " Q"]:
        """What is taken off the scores of each sentence."""
        if isinstance(words, JudgedWords):
            return words.hubness
        if not self.hubs.sentences:
            return words.vectors.new_zeros(len(words))
        typical = self._typical()
        if self.hubs.by == "scores":
            # Words and regions lie in one space: what is typical of sentences is so of pictures.
            pictures = self.inner.precompute(Regions(typical.vectors, typical.mask))
            values = self.inner.score(pictures, words)
        else:
            values = self.pooled.embed_texts(words) @ self.pooled.embed_texts(typical).T
        return self.hubs.sentences * self._of_best(values)

    def _typical(self) -> Words:
        return Words(self.get_buffer("bank"), self.get_buffer("one"))

    def _of_best(self, values: Float[Tensor, "N C"]) -> Float[Tensor, " N"]:
        mean = values.topk(min(self.hubs.best, values.shape[1]), dim=1).values.mean(1)
        # A picture without a region may have no score: there is nothing to take off then.
        return torch.nan_to_num(mean, nan=0.0, posinf=0.0, neginf=0.0)

    def _apart(self, images: Rows) -> tuple[Rows, Float[Tensor, " K"]]:
        tensors = images.tensors()
        hubness = tensors.pop(HUBNESS)
        return self.inner.images_type(**tensors), hubness
