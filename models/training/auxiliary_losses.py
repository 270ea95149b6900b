"""Losses of a recipe besides ranking: short questions and grounding of words; also noise on features."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import Regions, Words
from models.datasets.captioned_features import CaptionedFeatures
from models.extractors.coco_classes import COCO_CLASSES
from models.matching.single_matcher import SingleMatcher
from models.text.pretrained_reader import PretrainedReader
from models.training.concept_words import ConceptWords
from models.training.feature_noise import FeatureNoise
from models.training.grounding_loss import grounding_loss
from models.training.losses import stage_one_embeddings
from models.training.recipes import Recipe
from models.training.short_questions import QuestionBatch, ShortQuestions, caption_words, frequent_words, question_loss


@dataclass(frozen=True)
class TrainingBatch:
    """Q matching pairs of one step."""

    step: int
    pictures: np.ndarray
    """[Q], indices of the pictures."""
    sentences: Sequence[str]
    regions: Regions
    """The extracted features on the device of the training, with the recipe's noise."""


def refuse_few_regions(recipe: Recipe, data: CaptionedFeatures) -> None:
    """Raise ValueError if a captioned picture has no region, or if the recipe compares words with regions and pictures
    have only the whole picture."""
    bare = (place for place, texts in enumerate(data.captions) if texts and not data.mask[data.rows[place]].any())
    if (place := next(bare, None)) is not None:
        name = f"picture {place}" if data.names is None else data.names[place]
        raise ValueError(f"{name} has no region to learn from: take it out of the captions")
    if data.features.shape[1] < 2 and (recipe.question_weight or recipe.grounding_weight):
        raise ValueError(
            "pictures have one region, the whole of each, and this recipe compares words with others: set"
            " question_weight=0 and grounding_weight=0"
        )


class AuxiliaryLosses:
    """The losses that a recipe gives weights; without any, they cost nothing."""

    def __init__(self, recipe: Recipe, data: CaptionedFeatures, reader: PretrainedReader | None) -> None:
        """Prepare the losses; `reader` is that of a recipe with pretrained text, which they all need."""
        self._recipe, self._reader = recipe, reader
        self._noise: FeatureNoise | None = None
        self._concepts: ConceptWords | None = None
        self._questions: ShortQuestions | None = None
        if recipe.picture_noise or recipe.region_noise:
            self._noise = FeatureNoise(data, recipe.concept_dim, recipe.picture_noise, recipe.region_noise)
        if reader is not None and (recipe.question_weight or recipe.grounding_weight):
            words = caption_words(reader, data.captions)
            known = sorted(set(frequent_words(words)).union(COCO_CLASSES))
            self._concepts = ConceptWords(reader.encoder, data, known)
            if recipe.question_weight:
                self._questions = ShortQuestions(data, words, self._concepts)

    @property
    def sentences(self) -> list[str]:
        """All sentences besides the captions."""
        return self._questions.sentences() if self._questions else []

    @property
    def weights(self) -> Mapping[str, float]:
        """Name of a loss -> its weight in the total."""
        return {"questions": self._recipe.question_weight, "grounding": self._recipe.grounding_weight}

    def add_noise(self, regions: Regions) -> Regions:
        """The regions for a training step, with noise."""
        return self._noise(regions) if self._noise else regions

    def losses(
        self, matcher: SingleMatcher, batch: TrainingBatch, projected: Regions, words: Words
    ) -> dict[str, Float[Tensor, ""]]:
        """The unweighted losses of one step; the reranker and stage one both answer the questions."""
        losses = {}
        if self._questions:
            random = np.random.default_rng((self._recipe.seed, batch.step))
            losses["questions"] = self._answer(matcher, self._questions.draw(batch.pictures, random), projected)
        if self._concepts and self._reader and self._recipe.grounding_weight:
            tokens = [self._reader.tokens(sentence) for sentence in batch.sentences]
            losses["grounding"] = grounding_loss(self._concepts, batch.regions, projected, words, tokens)
        return losses

    def _answer(self, matcher: SingleMatcher, questions: QuestionBatch, projected: Regions) -> Float[Tensor, ""]:
        if not questions.sentences:
            return projected.vectors.sum() * 0
        device = matcher.device
        right, wrong = questions.right.to(device), questions.wrong.to(device)
        words = matcher.reranker.encode_texts(matcher.tokenize(questions.sentences).to(device))
        scores = matcher.reranker.score(matcher.reranker.precompute(projected), words)
        sentences, images = stage_one_embeddings(matcher, projected, words, self._recipe)
        cosines = sentences @ images.T
        return torch.stack(
            [
                question_loss(scores, right, wrong, self._recipe.score_temperature),
                question_loss(cosines, right, wrong, self._recipe.temperature),
            ]
        ).sum()
