"""A matcher is what a checkpoint holds: reranker, stage-one head and vocabulary, with the names they go by."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.batches import Regions, Rows, Tokens, Words
from models.matching.calibration import Calibration
from models.matching.stage_one import Pooled
from models.rerankers.base import Explanation, Reranker
from models.rerankers.encoders import EncoderConfig
from models.text.vocabulary import Vocabulary


class Matcher(nn.Module):
    """Sentences and raw region features in, stage-one embeddings and scores out."""

    def __init__(
        self,
        name: str,
        encoders: EncoderConfig,
        reranker: Reranker[Any],
        pooled: Pooled,
        vocabulary: Vocabulary,
        extractor_digest: str,
        digest: str = "",
        calibration: Calibration | None = None,
    ) -> None:
        """`calibration` says what the reranker's scores mean, where that is known."""
        super().__init__()
        self.name, self.digest, self.extractor_digest = name, digest, extractor_digest
        self.calibration = calibration
        self.encoders, self.vocabulary = encoders, vocabulary
        self.reranker, self.pooled = reranker, pooled

    @property
    def embed_dim(self) -> int:
        """Width E of the stage-one embeddings."""
        return self.pooled.config.dim

    @property
    def word_dim(self) -> int:
        """Width D of a word's vector."""
        return self.encoders.width

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @torch.no_grad()
    def encode_regions(self, regions: Regions) -> tuple[Rows, Float[Tensor, "K E"]]:
        """The model's encoded pictures (what a view stores) and their stage-one embeddings."""
        projected = self.reranker.project(regions.to(self.device, torch.float32))
        # Stores keep fp16. What is precomputed must come from the rounded vectors, or an attended
        # vector's inner product and its length would speak of two different vectors.
        rounded = Regions(projected.vectors.half().float(), projected.mask)
        return self.reranker.precompute(rounded), self.pooled.embed_images(rounded)

    @torch.no_grad()
    def encode_sentences(self, sentences: Sequence[str]) -> tuple[Words, Float[Tensor, "Q E"]]:
        """Encoded words and stage-one embeddings; ValueError on an empty sentence."""
        words = self.reranker.encode_texts(self.tokenize(sentences).to(self.device))
        return words, self.pooled.embed_texts(words)

    def tokenize(self, sentences: Sequence[str]) -> Tokens:
        """Word ids, padded; ValueError on an empty sentence."""
        return self.vocabulary.encode(sentences)

    def words(self, sentence: str) -> list[str]:
        """The tokens that are scored, <start> and <end> included."""
        return self.vocabulary.marked(sentence)

    def unknown_words(self, sentence: str) -> list[str]:
        """Words the model has never seen."""
        return self.vocabulary.unknown(sentence)

    def read_as(self, sentence: str) -> dict[str, str]:
        """Those words -> what each is scored as: a word near it, or <unk>."""
        return {word: self.vocabulary.read_as(word) for word in self.unknown_words(sentence)}

    @torch.no_grad()
    def prepared(self, words: Words) -> Words:
        """Words that are to be scored with many blocks of pictures, with all that they have in common found once."""
        return self.reranker.prepared(words)

    @torch.no_grad()
    def score(self, images: Rows, words: Words) -> Float[Tensor, "Q K"]:
        """Scores of all pairs."""
        return self.reranker.score(images, words)

    @torch.no_grad()
    def explain(self, images: Rows, words: Words) -> Explanation:
        """What the scores of all pairs are made of."""
        return self.reranker.explain(images, words)

    def image_layout(self, num_regions: int, feature_dim: int) -> dict[str, tuple[int, ...]]:
        """Shape of every field of one picture's record, found by encoding one empty picture."""
        empty = Regions(torch.zeros(1, num_regions, feature_dim), torch.ones(1, num_regions, dtype=torch.bool))
        images, _ = self.encode_regions(empty)
        return {name: tuple(tensor.shape[1:]) for name, tensor in images.tensors().items()}

    def images_from(self, arrays: Mapping[str, np.ndarray]) -> Rows:
        """A view's records as the model's encoded pictures, in float32 on the model's device."""
        tensors = {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}
        rows: Rows = self.reranker.images_type(**tensors).to(dtype=torch.float32)
        return rows
