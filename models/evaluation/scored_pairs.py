"""Scores of all sentences with all pictures, and the best answers to every question in galleries of any size."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from models.matching.log_odds import ScoredAnswers, margins, prior_log_odds

ANSWERS_SHOWN = 10  # of each question: as many as people usually look at

Direction = Literal["text", "image"]  # pictures for a sentence, or sentences for a picture


class ScoredPairs(NamedTuple):
    """Scores of all sentences with all pictures, and the picture that each sentence belongs to.

    `for_pictures` are the scores of searches for sentences with pictures, if these differ.
    """

    scores: Float[Tensor, "Q K"]
    image_of: Int64[Tensor, " Q"]
    for_pictures: Float[Tensor, "Q K"] | None = None

    def of(self, direction: Direction) -> Float[Tensor, "Q K"]:
        """The scores of one direction."""
        return self.scores if direction == "text" or self.for_pictures is None else self.for_pictures

    def among(self, gallery: Int64[Tensor, " G"]) -> "ScoredPairs":
        """The pairs of some pictures and their own sentences, with the pictures renumbered."""
        own = self.image_of[:, None] == gallery
        sentences = own.any(1)
        return self._each(lambda scores: scores[sentences][:, gallery], own[sentences].int().argmax(1))

    def cpu(self) -> "ScoredPairs":
        """The pairs in main memory."""
        return self._each(Tensor.cpu, self.image_of.cpu())

    def without_own(self) -> "ScoredPairs":
        """The pairs with scores of minus infinity for a picture's own sentences, so that there are no right answers."""
        own = self.image_of[:, None] == torch.arange(self.scores.shape[1], device=self.image_of.device)
        return self._each(lambda scores: scores.masked_fill(own, -torch.inf), self.image_of)

    def _each(
        self, change: Callable[[Float[Tensor, "Q K"]], Float[Tensor, "P J"]], image_of: Int64[Tensor, " P"]
    ) -> "ScoredPairs":
        for_pictures = None if self.for_pictures is None else change(self.for_pictures)
        return ScoredPairs(change(self.scores), image_of, for_pictures)

    def num_questions(self, direction: Direction) -> int:
        """The number of questions: of all sentences, or of all pictures."""
        return self.scores.shape[0 if direction == "text" else 1]


def best_answers(pairs: ScoredPairs, direction: Direction) -> ScoredAnswers:
    """The best-scored answers to every question in one gallery."""
    pictures = torch.arange(pairs.scores.shape[1])
    num_right = 1.0 if direction == "text" else len(pairs.image_of) / len(pictures)
    if direction == "text":
        scores, picture_of_question, picture_of_candidate = pairs.of(direction), pairs.image_of, pictures
    else:
        scores, picture_of_question, picture_of_candidate = pairs.of(direction).T, pictures, pairs.image_of
    best = scores.topk(min(ANSWERS_SHOWN, scores.shape[1]), dim=1)
    values = best.values.double().numpy()
    correct = (picture_of_candidate[best.indices] == picture_of_question[:, None]).flatten().numpy()
    prior = np.full(len(correct), prior_log_odds(scores.shape[1], num_right))
    return ScoredAnswers(values.flatten(), margins(values).flatten(), prior, correct)


def deal_galleries(pictures: Int64[Tensor, " N"], size: int, seed: int) -> list[Int64[Tensor, " G"]]:
    """Pictures dealt at random into as many full galleries of `size` as possible."""
    order = torch.from_numpy(np.random.default_rng([seed, size]).permutation(len(pictures)))
    return [pictures[order[start : start + size]] for start in range(0, len(pictures) - size + 1, size)]


def answers_in_galleries(
    pairs: ScoredPairs, pictures: Int64[Tensor, " N"], size: int, direction: Direction, seed: int
) -> ScoredAnswers:
    """The best answers in all galleries of one size."""
    galleries = deal_galleries(pictures, size, seed)
    return ScoredAnswers.concatenate([best_answers(pairs.among(gallery), direction) for gallery in galleries])


def first_answers(answers: ScoredAnswers, num_questions: int) -> ScoredAnswers:
    """Only the best answer to each question of one gallery."""
    every = slice(None, None, len(answers.correct) // num_questions)
    return ScoredAnswers(
        answers.scores[every], answers.margins[every], answers.prior_log_odds[every], answers.correct[every]
    )


def answers_with_and_without(pairs: ScoredPairs, direction: Direction) -> ScoredAnswers:
    """The first answers to every question in one gallery, then in the same without the question's right answers.

    `correct` says whether the gallery has a right answer.
    """
    num_questions = pairs.num_questions(direction)
    each = pairs, pairs.without_own()
    present, absent = (first_answers(best_answers(scored, direction), num_questions) for scored in each)
    holds = np.repeat([True, False], num_questions)
    return ScoredAnswers.concatenate([present, absent])._replace(correct=holds)


def match_answers_in_galleries(
    pairs: ScoredPairs, pictures: Int64[Tensor, " N"], size: int, direction: Direction, seed: int
) -> ScoredAnswers:
    """The first answers in all galleries of one size, with and without the right ones."""
    galleries = deal_galleries(pictures, size, seed)
    return ScoredAnswers.concatenate(
        [answers_with_and_without(pairs.among(gallery), direction) for gallery in galleries]
    )
