"""Training on short questions: "a dog" should find the pictures that show one, in any wording.

Captions have about ten words, questions of people often one. Every step asks for some things that pictures of its batch
show, each in one of the wordings of `TEMPLATES`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.class_names import TEMPLATES, from_template
from models.evaluation.short_match import SAYING
from models.text.pretrained_reader import PretrainedReader
from models.training.concept_words import ConceptWords

SHOWN_BY = 4  # pictures that surely show what a word names, for it to be asked for
SURE, POSSIBLE = 0.88, 0.75  # cosines of a word to a region's concepts from which a picture shows it, or may show it
QUESTIONS = 32  # per step


class QuestionBatch(NamedTuple):
    """Questions about the K pictures of a batch."""

    sentences: list[str]
    right: Bool[Tensor, "Q K"]
    wrong: Bool[Tensor, "Q K"]
    """Pictures in neither mask may or may not show it."""


class ShortQuestions:
    """Words that name things, and the training pictures that show them by captions or by concepts."""

    def __init__(self, data: CaptionedFeatures, words: Sequence[Sequence[set[str]]], concepts: ConceptWords) -> None:
        """`words` are those of every caption of every picture, in the order of the data."""
        counts = [Counter(word for caption in captions for word in caption) for captions in words]
        surely, maybe = concepts.highest >= SURE, concepts.highest >= POSSIBLE
        for picture, picture_counts in enumerate(counts):
            for word, count in picture_counts.items():
                row = concepts.rows.get(word)
                if row is not None:
                    maybe[row, picture] = True
                    surely[row, picture] |= count >= min(SAYING, len(words[picture]))
        asked = concepts.is_concrete & (surely.sum(1) >= SHOWN_BY)
        self.words = [word for word, row in concepts.rows.items() if asked[row]]
        self._right, self._possible = surely[asked], (maybe | surely)[asked]

    def __len__(self) -> int:
        """The number of words."""
        return len(self.words)

    def sentences(self) -> list[str]:
        """Every question."""
        return [from_template(template, word) for word in self.words for template in TEMPLATES]

    def draw(self, pictures: np.ndarray, random: np.random.Generator) -> QuestionBatch:
        """At most QUESTIONS questions about things that some of these pictures show, each in a random wording."""
        right = self._right[:, pictures]
        shown = right.any(1).nonzero()[:, 0].numpy()
        chosen = np.sort(random.permutation(shown)[:QUESTIONS])
        sentences = [from_template(TEMPLATES[random.integers(len(TEMPLATES))], self.words[row]) for row in chosen]
        return QuestionBatch(sentences, right[chosen], ~self._possible[:, pictures][chosen])


def question_loss(
    scores: Float[Tensor, "Q K"], right: Bool[Tensor, "Q K"], wrong: Bool[Tensor, "Q K"], temperature: float
) -> Float[Tensor, ""]:
    """Mean of -log(sum over right pictures of exp(s / T) / the same sum over right and wrong ones)."""
    if not len(scores):
        return scores.sum()
    logits = scores / temperature
    over_right = logits.masked_fill(~right, -torch.inf).logsumexp(1)
    over_all = logits.masked_fill(~(right | wrong), -torch.inf).logsumexp(1)
    return (over_all - over_right).mean()


def caption_words(reader: PretrainedReader, captions: Iterable[Iterable[str]]) -> list[list[set[str]]]:
    """The words of every caption, without <start> and <end>; [picture][caption]."""
    return [[set(reader.tokens(text)[1:-1]) for text in texts] for texts in captions]


def frequent_words(words: Sequence[Sequence[set[str]]]) -> list[str]:
    """Words in the captions of at least SHOWN_BY pictures."""
    counts = Counter(word for captions in words for word in set().union(*captions))
    return [word for word, count in counts.items() if count >= SHOWN_BY]
