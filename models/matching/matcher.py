"""Matchers: sentences and raw region features in, stage-one embeddings and scores out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.batches import ReadSentences, Regions, Words
from models.kernels.interface import RecordKernels
from models.matching.calibration import Calibration
from models.matching.encoded import EncodedImages, EncodedTexts
from models.rerankers.base import Explanation
from models.text.pretrained_reader import PretrainedReader
from models.text.reader import SentenceReader
from models.text.vocabulary import UNKNOWN_WORD, Vocabulary


class Matcher(nn.Module, ABC):
    """A searchable model, which encodes the pictures and captions of a view and scores its candidates.

    Pictures are encoded once and stored; a record read back gives the same scores. Captions are stored as words by
    `encode_words`, and scored after `texts_from`.
    """

    wide_fields: tuple[str, ...] = ()  # of records; stored in single precision, since they may overflow fp16

    def __init__(
        self, name: str, reader: SentenceReader, extractor_digest: str, digest: str, calibration: Calibration | None
    ) -> None:
        """`extractor_digest` names the extractor of its features; `calibration` is None if it has none. `reader` is not
        a submodule: matchers share it, and none saves it."""
        super().__init__()
        self.name, self.digest, self.extractor_digest = name, digest, extractor_digest
        self.reader, self.calibration = reader, calibration
        self.kernels: RecordKernels | None = None

    def use_kernels(self, kernels: RecordKernels | None) -> None:
        """Score stored pictures and read sentences by these kernels as far as possible; by PyTorch for None."""
        if isinstance(self.reader, PretrainedReader):  # for all matchers that share it
            self.reader.use_kernels(kernels)
        for matcher in (module for module in self.modules() if isinstance(module, Matcher)):
            matcher.kernels = kernels

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of a matcher that reads word ids. Raises ValueError if it reads states."""
        if isinstance(self.reader, Vocabulary):
            return self.reader
        raise ValueError(f"{self.name} reads sentences by a pretrained encoder and has no vocabulary")

    @property
    @abstractmethod
    def feature_dim(self) -> int:
        """Width F of the region features it reads."""

    @property
    @abstractmethod
    def embed_dim(self) -> int:
        """Width E of the stage-one embeddings, which are compared by inner products."""

    @property
    @abstractmethod
    def word_dim(self) -> int:
        """Width D of an encoded word's vector."""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @abstractmethod
    def encode_regions(self, regions: Regions) -> tuple[EncodedImages, Float[Tensor, "K E"]]:
        """Encoded pictures, whose `tensors` a view stores, and their stage-one embeddings."""

    @abstractmethod
    def images_from(self, records: Mapping[str, np.ndarray]) -> EncodedImages:
        """Encoded pictures from a view's records (field -> [K, ...]), in float32 on the matcher's device."""

    @abstractmethod
    def encode_tokens(self, tokens: ReadSentences) -> tuple[Words, Float[Tensor, "Q E"]]:
        """Encoded words of the result of `tokenize`, and the sentences' stage-one embeddings."""

    def similarity_query(self, embeddings: Float[Tensor, "K E"]) -> Float[Tensor, "K E"]:
        """Embeddings of pictures as a query for similar pictures: inner products with other pictures' are cosines."""
        return embeddings

    @property
    def short_question(self) -> int:
        """The number of words up to which a question's scores differ from those of the same caption; 0 for none."""
        return 0

    @abstractmethod
    def texts_from(self, words: Words, asked: bool = True) -> EncodedTexts:
        """Sentences that can be scored, from their encoded words: questions, or captions that may answer a picture."""

    @abstractmethod
    def score(self, images: EncodedImages, texts: EncodedTexts) -> Float[Tensor, "Q K"]:
        """Score of every sentence with every picture; higher matches better."""

    @abstractmethod
    def score_stored(
        self, records: Mapping[str, np.ndarray], rows: npt.NDArray[np.int64], texts: EncodedTexts
    ) -> Float[Tensor, "Q K"] | None:
        """`score` of the pictures `rows` of a view's records (field -> [N, ...]) by the kernels, which read them in
        place; None without kernels, or if they do not support the model or such long sentences."""

    @abstractmethod
    def score_in_blocks(self, images: EncodedImages, texts: EncodedTexts) -> Float[Tensor, "Q K"]:
        """`score` for many pictures and sentences at once, with bounded memory."""

    @abstractmethod
    def explain(self, images: EncodedImages, texts: EncodedTexts) -> Explanation:
        """The reasons of all pairs' scores; contributions add up to the score."""

    def tokenize(self, sentences: Sequence[str]) -> ReadSentences:
        """Padded word ids or states of words. Raises ValueError for an empty sentence."""
        if isinstance(sentences, str):  # its letters would be read as sentences
            raise TypeError("sentences come as a list: give [sentence] for a single one")
        return self.reader.encode(sentences)

    def encode_words(self, sentences: Sequence[str]) -> tuple[Words, Float[Tensor, "Q E"]]:
        """Encoded words, which a view stores of captions, and stage-one embeddings. Raises ValueError for an empty
        sentence or none."""
        return self.encode_tokens(self._read(sentences))

    def encode_sentences(self, sentences: Sequence[str]) -> tuple[EncodedTexts, Float[Tensor, "Q E"]]:
        """Sentences that can be scored, and stage-one embeddings. Raises ValueError for an empty sentence or none."""
        return self.encode_texts(self._read(sentences))

    def _read(self, sentences: Sequence[str]) -> ReadSentences:
        tokens = self.tokenize(sentences)
        if len(sentences) == 0:
            raise ValueError("there is no sentence to encode: give one at least")
        return tokens.to(self.device)

    def encode_texts(self, tokens: ReadSentences) -> tuple[EncodedTexts, Float[Tensor, "Q E"]]:
        """`encode_sentences` of the result of `tokenize`."""
        words, embeddings = self.encode_tokens(tokens)
        return self.texts_from(words), embeddings

    def words(self, sentence: str) -> list[str]:
        """The tokens that are scored, <start> and <end> included."""
        return self.reader.tokens(sentence)

    def num_pieces(self, words: Sequence[str]) -> int:
        """The number of pieces that are encoded for a sentence of these `words`."""
        return self.reader.num_pieces(words)

    def unknown_words(self, sentence: str) -> list[str]:
        """Words that the reader does not know: those without an id, or that are not English words."""
        return self.reader.unknown_words(sentence)

    def is_common(self, word: str) -> bool:
        """Whether captions use a word so often that the model knows what it looks like."""
        return self.reader.is_common(word)

    def read_as(self, sentence: str) -> dict[str, str]:
        """Word of the sentence -> the different word that it is scored as, or <unk>."""
        return self.reader.corrections(sentence)

    def near_words(self, sentence: str) -> dict[str, str]:
        """The mapping of `read_as` without words that are read as <unk>."""
        return {word: read for word, read in self.read_as(sentence).items() if read != UNKNOWN_WORD}

    def image_layout(self, num_regions: int, feature_dim: int) -> dict[str, tuple[int, ...]]:
        """Shape of every field of one picture's record."""
        return {name: tuple(tensor.shape[1:]) for name, tensor in self.blank_record(num_regions, feature_dim).items()}

    def blank_record(self, num_regions: int, feature_dim: int) -> Mapping[str, Tensor]:
        """The fields of one empty picture's record, each as a batch of one."""
        empty = Regions(torch.zeros(1, num_regions, feature_dim), torch.ones(1, num_regions, dtype=torch.bool))
        images, _ = self.encode_regions(empty)
        return images.tensors()
