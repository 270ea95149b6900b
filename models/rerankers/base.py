"""The interface of a reranker, the scoring of aligned pairs, and explanations of scores."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from models.batches import ReadSentences, Regions, Rows, Words
from models.kernels.forms import AnyForm, Question
from models.rerankers.attention import gram_matrix, zero_padded

Images = TypeVar("Images", bound=Rows)

# Metadata of an option that was added after the first checkpoints of its model, which do not have it.
OMITTED_BY_DEFAULT: Mapping[str, bool] = {"omitted by default": True}


def stored_options(config: Any) -> dict[str, Any]:
    """A reranker's options as a checkpoint stores them, without defaults of options that are `OMITTED_BY_DEFAULT`."""
    return {
        option.name: getattr(config, option.name)
        for option in fields(config)
        if option.metadata != OMITTED_BY_DEFAULT or getattr(config, option.name) != option.default
    }


@dataclass(frozen=True)
class Explanation:
    """Explanations of the scores of Q sentences with K pictures; None for parts that a model does not have exactly."""

    kind: str  # "words attend regions", "regions attend words" or "weights"
    attention: Float[Tensor, "Q K W R"] | None = None
    contributions: Float[Tensor, "Q K W"] | None = None  # of each word; they add up to the score
    word_weights: Float[Tensor, "Q K W"] | None = None
    region_weights: Float[Tensor, "Q K R"] | None = None
    shares: Float[Tensor, "Q K W R"] | None = None  # of word and region; over regions they add up to contributions

    def plus(self, contributions: Float[Tensor, "Q K W"], shares: Float[Tensor, "Q K W R"] | None) -> "Explanation":
        """The explanation of a score plus a summand with these contributions and shares."""
        if self.contributions is None:
            return self
        both = None if self.shares is None or shares is None else self.shares + shares
        return replace(self, contributions=self.contributions + contributions, shares=both)

    def rescaled(
        self, scale: float, shift: Float[Tensor, "Q K"], words: Bool[Tensor, "Q W"], regions: Bool[Tensor, "K R"]
    ) -> "Explanation":
        """The explanation of scale x score + shift; `words` and `regions` are masks of the real ones.

        The shift is spread evenly over a sentence's words, and a word's part of it over the picture's regions.
        """
        if self.contributions is None:
            return self
        by_word = shift[:, :, None] / words.sum(1)[:, None, None]
        contributions = (scale * self.contributions + by_word).masked_fill(~words[:, None], 0)
        if self.shares is None:
            return replace(self, contributions=contributions)
        by_pair = by_word.unsqueeze(3) / regions.sum(1)[:, None, None]
        real = words[:, None, :, None] & regions[:, None]
        return replace(self, contributions=contributions, shares=(scale * self.shares + by_pair).masked_fill(~real, 0))


@dataclass(frozen=True)
class RegionsWithGram(Rows):
    """Encoded pictures: region vectors (zero where padded) and the inner products of all their pairs."""

    vectors: Float[Tensor, "K R D"]
    gram: Float[Tensor, "K R R"]
    mask: Bool[Tensor, "K R"]

    @classmethod
    def of(cls, projected: Regions) -> "RegionsWithGram":
        """The rows of projected regions."""
        vectors = zero_padded(projected.vectors, projected.mask)
        return cls(vectors, gram_matrix(vectors), projected.mask)


class Reranker(nn.Module, ABC, Generic[Images]):
    """A cross-attention matching model over encoded pictures of type `Images`.

    Padding never changes a score. Values go in and out; no state is kept between calls.
    """

    config: Any  # the frozen dataclass of its options
    images_type: type[Images]  # what `precompute` returns and a store keeps
    block: ClassVar[tuple[int, int]] = (50, 16)  # pictures x sentences that `score_in_blocks` passes to `score`
    projects: ClassVar[bool] = True  # False: its layers read raw features, whose width `project` does not change
    kernel_form: AnyForm | None = None  # its score for the kernels; None: only PyTorch computes it
    wide_fields: tuple[str, ...] = ()  # of its records: products of vectors of any length, which may overflow fp16
    region_encoder: nn.Module  # Regions of raw features -> Regions of vectors
    sentence_encoder: nn.Module  # ReadSentences -> Words

    def project(self, regions: Regions) -> Regions:
        """The vectors that the model attends to, from raw region features."""
        projected = self.region_encoder(regions)
        assert isinstance(projected, Regions)
        return projected

    def start_as(self, words: Float[Tensor, "D S"]) -> None:
        """Initialise the map of a pretrained encoder's states as `words`, and with it all maps from their space."""
        encoders: tuple[Any, Any] = self.sentence_encoder, self.region_encoder
        for encoder in encoders:
            encoder.start_as(words)

    @abstractmethod
    def precompute(self, projected: Regions) -> Images:
        """Everything of the pictures that needs no text, which a store keeps as their records."""

    def encode_texts(self, tokens: ReadSentences) -> Words:
        """Encoded words from word ids or states of words."""
        words = self.sentence_encoder(tokens)
        assert isinstance(words, Words)
        return words

    @abstractmethod
    def score(self, images: Images, words: Words) -> Float[Tensor, "Q K"]:
        """Score of every sentence with every picture; higher matches better."""

    @abstractmethod
    def explain(self, images: Images, words: Words) -> Explanation:
        """Explanations of all pairs' scores, as far as the model has exact ones."""

    def kernel_question(self, words: Words, stored: Callable[[str], Tensor]) -> Question:
        """Sentences in the kernels' form; `stored` returns the [K, ...] float32 field of a name for the scored
        pictures."""
        return words


def score_pairs(reranker: Reranker[Images], images: Images, words: Words) -> Float[Tensor, " P"]:
    """Scores of P aligned pairs, with gradient: image p with sentence p only."""
    names = list(images.tensors())

    def score_pair(tensors: tuple[Tensor, ...], vectors: Tensor, mask: Tensor) -> Tensor:
        image = images.with_tensors({name: tensor[None] for name, tensor in zip(names, tensors, strict=True)})
        return reranker.score(image, Words(vectors[None], mask[None]))[0, 0]

    scores = torch.func.vmap(score_pair)(tuple(images.tensors().values()), words.vectors, words.mask)
    assert isinstance(scores, Tensor)
    return scores
