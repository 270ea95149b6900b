"""Small working fakes: a detector and a matcher that know colours and need no weights."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL.Image
import torch
from torch import Tensor, nn

from models.batches import ReadSentences, Regions, Rows, Tokens, Words
from models.extractors.base import PICTURE, Detections, Extractor
from models.matching.encoded import EncodedImages, EncodedTexts
from models.matching.matcher import Matcher
from models.rerankers.base import Explanation
from models.text.vocabulary import Vocabulary

COLOURS = {
    "red": (1, 0, 0),
    "green": (0, 1, 0),
    "blue": (0, 0, 1),
    "yellow": (1, 1, 0),
    "cyan": (0, 1, 1),
    "magenta": (1, 0, 1),
    "white": (1, 1, 1),
    "black": (0, 0, 0),
}
SPECIALS = ("<pad>", "<start>", "<end>", "<unk>")
VOCABULARY = (*SPECIALS, *COLOURS)
R, D, E = 4, 16, 4


class FakeExtractor(Extractor):
    """The picture, its left half, right half and centre; narrower than 8 pixels: the first alone.

    A feature is the colours of the region's four quarters, its mean colour and a one: D = 16.
    """

    feature_dim = D
    num_regions = R
    labels = (PICTURE, "left", "right", "centre")

    def __init__(self, digest: str = "fake-extractor") -> None:
        super().__init__()
        self.digest = digest

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        features, boxes = torch.zeros(len(pictures), R, D), torch.zeros(len(pictures), R, 4)
        mask = torch.zeros(len(pictures), R, dtype=torch.bool)
        for k, picture in enumerate(pictures):
            for r, box in enumerate(self._boxes(*picture.size)):
                features[k, r] = self._feature(picture, box)
                boxes[k, r] = torch.tensor(box, dtype=torch.float32)
                mask[k, r] = True
        labels = torch.arange(R).expand(len(pictures), R) * mask
        confidence = torch.tensor([1.0, 0.75, 0.5, 0.25]) * mask
        return Detections(features, boxes, labels, confidence, mask)

    def _boxes(self, width: int, height: int) -> list[tuple[int, int, int, int]]:
        whole, middle = (0, 0, width, height), width // 2
        if width < 8:
            return [whole]
        centre = (width // 4, height // 4, width - width // 4, height - height // 4)
        return [whole, (0, 0, middle, height), (middle, 0, width, height), centre]

    def _feature(self, picture: PIL.Image.Image, box: tuple[int, int, int, int]) -> Tensor:
        quarters = picture.resize((2, 2), PIL.Image.Resampling.BOX, box=box)
        colours = torch.from_numpy(np.asarray(quarters, dtype=np.float32) / 255).reshape(4, 3)
        return torch.cat([colours.flatten(), colours.mean(0), torch.ones(1)])


class CountingExtractor(FakeExtractor):
    """Counts the pictures that it extracts."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at = 0

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        self.looked_at += len(pictures)
        return super().extract(pictures)


@dataclass(frozen=True)
class FakeImages(Rows):
    """Unit colour vectors of regions [K R E] and which are real [K R]."""

    vectors: Tensor
    mask: Tensor


def _unit_colours(rgb: Tensor) -> Tensor:
    """Colours [... 3] in 0..1 as unit vectors [... E]; the small constant keeps grey from being zero."""
    constant = torch.full_like(rgb[..., :1], 0.05)
    return nn.functional.normalize(torch.cat([rgb - 0.5, constant], dim=-1), dim=-1)


class FakeMatcher(Matcher):
    """A Matcher over eight colour words; a word's share of the score is its cosine with the nearest region."""

    feature_dim = D
    embed_dim = E
    word_dim = E
    device = torch.device("cpu")

    def __init__(
        self, name: str = "fake", digest: str = "fake-matcher", extractor_digest: str = "fake-extractor"
    ) -> None:
        super().__init__(name, Vocabulary(VOCABULARY), extractor_digest, digest, None)

    def encode_regions(self, regions: Regions) -> tuple[EncodedImages, Tensor]:
        vectors = _unit_colours(regions.vectors.float()[..., 12:15]) * regions.mask.unsqueeze(-1)
        return EncodedImages(FakeImages(vectors, regions.mask)), nn.functional.normalize(vectors.sum(1), dim=-1)

    def images_from(self, records: Mapping[str, np.ndarray]) -> EncodedImages:
        tensors = {name: torch.from_numpy(array) for name, array in records.items()}
        return EncodedImages(FakeImages(**tensors)).to(dtype=torch.float32)

    def score_stored(self, records: Mapping[str, np.ndarray], rows: Any, texts: EncodedTexts) -> None:
        return None

    def tokenize(self, sentences: Sequence[str]) -> Tokens:
        rows = [[VOCABULARY.index(w) if w in VOCABULARY else 3 for w in self.words(s)] for s in sentences]
        width = max((len(row) for row in rows), default=0)
        padded = [row + [0] * (width - len(row)) for row in rows]
        ids = torch.tensor(padded, dtype=torch.int64).reshape(len(rows), width)
        return Tokens(ids, ids != 0)

    def words(self, sentence: str) -> list[str]:
        tokens = [word for word in sentence.lower().split() if any(map(str.isprintable, word))]
        if not tokens:
            raise ValueError("an empty caption has no words to match; give at least one")
        return ["<start>", *tokens, "<end>"]

    def unknown_words(self, sentence: str) -> list[str]:
        return list(dict.fromkeys(word for word in self.words(sentence) if word not in VOCABULARY))

    def encode_tokens(self, tokens: ReadSentences) -> tuple[Words, Tensor]:
        assert isinstance(tokens, Tokens)
        colours = _unit_colours(torch.tensor(list(COLOURS.values()), dtype=torch.float32))
        table = torch.cat([torch.zeros(len(SPECIALS), E), colours])
        vectors = table[tokens.ids]
        return Words(vectors, tokens.mask), nn.functional.normalize(vectors.sum(1), dim=-1)

    def texts_from(self, words: Words, asked: bool = True) -> EncodedTexts:
        return EncodedTexts(words.vectors, words.mask, torch.zeros(len(words)), torch.full((len(words),), asked))

    def score(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        contributions = self.explain(images, texts).contributions
        assert contributions is not None
        return contributions.sum(-1)

    def score_in_blocks(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        return self.score(images, texts)

    def explain(self, images: EncodedImages, texts: EncodedTexts) -> Explanation:
        rows = images.rows
        assert isinstance(rows, FakeImages)
        cosines = torch.einsum("qwd,krd->qkwr", texts.vectors, rows.vectors.float())
        cosines = cosines.masked_fill(~rows.mask[None, :, None, :], -torch.inf)
        attention = (10 * cosines).softmax(-1)
        best = cosines.amax(-1).masked_fill(~texts.mask[:, None], 0)
        contributions = best / texts.mask.sum(1)[:, None, None]
        chosen = nn.functional.one_hot(cosines.argmax(-1), cosines.shape[-1])
        shares = chosen * contributions.unsqueeze(-1)
        return Explanation("words attend regions", attention, contributions, shares=shares)


class WideExtractor(FakeExtractor):
    """A detector that differs from FakeExtractor: five regions of 18 numbers, other labels, the same boxes."""

    feature_dim = D + 2
    num_regions = R + 1
    labels = (PICTURE, "west", "east", "middle")

    def __init__(self, digest: str = "wide-extractor") -> None:
        super().__init__(digest)

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        found = super().extract(pictures)
        return Detections(
            nn.functional.pad(found.features, (0, 2, 0, 1)),
            nn.functional.pad(found.boxes, (0, 0, 0, 1)),
            nn.functional.pad(found.labels, (0, 1)),
            nn.functional.pad(found.confidence, (0, 1)),
            nn.functional.pad(found.mask, (0, 1)),
        )


class WideMatcher(FakeMatcher):
    """A FakeMatcher for the features of WideExtractor."""

    feature_dim = D + 2

    def __init__(
        self, name: str = "wide", digest: str = "wide-matcher", extractor_digest: str = "wide-extractor"
    ) -> None:
        super().__init__(name, digest, extractor_digest)


def at_once() -> "Future[None]":
    """A completed future."""
    done: Future[None] = Future()
    done.set_result(None)
    return done
