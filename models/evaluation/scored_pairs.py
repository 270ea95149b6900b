"""Scores of all sentences with all pictures, and the best answers to every question in galleries of any size."""

from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from models.matching.log_odds import ScoredAnswers, margins, prior_log_odds

ANSWERS_SHOWN = 10  # of each question: as many as somebody looks at

Direction = Literal["text", "image"]  # pictures for a sentence, or sentences for a picture


class ScoredPairs(NamedTuple):
    """Scores of all sentences with all pictures, and the picture that each sentence belongs to."""

    scores: Float[Tensor, "Q K"]
    image_of: Int64[Tensor, " Q"]

    def among(self, gallery: Int64[Tensor, " G"]) -> "ScoredPairs":
        """The pairs of some pictures and their own sentences, the pictures numbered anew."""
        own = self.image_of[:, None] == gallery
        sentences = own.any(1)
        return ScoredPairs(self.scores[sentences][:, gallery], own[sentences].int().argmax(1))

    def num_questions(self, direction: Direction) -> int:
        """The number of questions: of all sentences, or of all pictures."""
        return self.scores.shape[0 if direction == "text" else 1]


def best_answers(pairs: ScoredPairs, direction: Direction) -> ScoredAnswers:
    """The best-scored answers to every question in one gallery."""
    pictures = torch.arange(pairs.scores.shape[1])
    num_right = 1.0 if direction == "text" else len(pairs.image_of) / len(pictures)
    if direction == "text":
        scores, picture_of_question, picture_of_candidate = pairs.scores, pairs.image_of, pictures
    else:
        scores, picture_of_question, picture_of_candidate = pairs.scores.T, pictures, pairs.image_of
    best = scores.topk(min(ANSWERS_SHOWN, scores.shape[1]), dim=1)
    values = best.values.double().numpy()
    correct = (picture_of_candidate[best.indices] == picture_of_question[:, None]).flatten().numpy()
    prior = np.full(len(correct), prior_log_odds(scores.shape[1], num_right))
    return ScoredAnswers(values.flatten(), margins(values).flatten(), prior, correct)


def deal_galleries(pictures: Int64[Tensor, " N"], size: int, seed: int) -> list[Int64[Tensor, " G"]]:
    """Pictures dealt at random into as many whole galleries of `size` as there are."""
    order = torch.from_numpy(np.random.default_rng([seed, size]).permutation(len(pictures)))
    return [pictures[order[start : start + size]] for start in range(0, len(pictures) - size + 1, size)]


def answers_in_galleries(
    pairs: ScoredPairs, pictures: Int64[Tensor, " N"], size: int, direction: Direction, seed: int
) -> ScoredAnswers:
    """The best answers in all galleries of one size."""
    galleries = deal_galleries(pictures, size, seed)
    return ScoredAnswers.concatenate([best_answers(pairs.among(gallery), direction) for gallery in galleries])


def first_answers(answers: ScoredAnswers, num_questions: int) -> ScoredAnswers:
    """The best answer alone of each question of one gallery."""
    every = slice(None, None, len(answers.correct) // num_questions)
    return ScoredAnswers(
        answers.scores[every], answers.margins[every], answers.prior_log_odds[every], answers.correct[every]
    )


def answers_with_and_without(pairs: ScoredPairs, direction: Direction) -> ScoredAnswers:
    """The first answers to every question in one gallery, then those without its right ones; `correct` says which.

    The second half are answers of a gallery in which nothing answers the question.
    """
    own = pairs.image_of[:, None] == torch.arange(pairs.scores.shape[1])
    without = ScoredPairs(pairs.scores.masked_fill(own, -torch.inf), pairs.image_of)
    num_questions = pairs.num_questions(direction)
    present, absent = (first_answers(best_answers(each, direction), num_questions) for each in (pairs, without))
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
