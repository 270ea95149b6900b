"""Pictures that are like a picture and also show something else: the sum of stage one's two scores, judged by captions.

    python -m benchmarks.pictures_and_words --features FEATURES --captions captions.jsonl --split dev

A question is a picture and a word that none of its captions has; the words are those that at least two captions hold of
LEAST_COMMON to MOST_COMMON of all pictures. The gain of another picture is the square of its captions' similarity to
those of the query picture (the cosine of mean MiniLM vectors) if its captions hold the word, else 0; nDCG@10 compares
rankings. The weight is chosen on questions with the first half of the pictures and reported on the second, with 95 %
intervals of the paired difference to the word alone.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from benchmarks.captioned_pictures import captions_parser, given_matcher, given_pictures
from benchmarks.similar_pictures import caption_similarities, compared_with, ndcg
from models.datasets.captioned_features import CaptionedFeatures
from models.matching.single_matcher import SingleMatcher

LEAST_COMMON, MOST_COMMON = 0.015, 0.2  # share of the pictures whose captions hold a word
EACH = 60  # pictures that each word is combined with
BATCH = 100
PICTURE_WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
"""Weights of the cosine with the picture; the word's score has weight 1."""
STOP_WORDS = """and are another down for four from front has her his into its off one other out over some that the their
there three through two while who with"""


class Questions(NamedTuple):
    """The picture and the word of every question, by number, and the words."""

    pictures: Int64[Tensor, " Q"]
    words: Int64[Tensor, " Q"]
    names: tuple[str, ...]


def words_of_captions(
    captions: Sequence[Sequence[str]],
) -> tuple[tuple[str, ...], Bool[Tensor, "W N"], Bool[Tensor, "W N"]]:
    """The words, whether two captions of each picture hold each word, and whether one does."""
    counts = [
        Counter(word for text in texts for word in set(re.findall(r"[a-z]{3,}", text.lower()))) for texts in captions
    ]
    common = Counter(word for each in counts for word, count in each.items() if count > 1)
    stop_words, counted = (
        set(STOP_WORDS.split()),
        range(int(LEAST_COMMON * len(captions)), int(MOST_COMMON * len(captions)) + 1),
    )
    words = tuple(sorted(word for word, count in common.items() if count in counted and word not in stop_words))
    captions_with = torch.tensor([[each[word] for each in counts] for word in words])
    return words, captions_with > 1, captions_with > 0


def questions_of(words: tuple[str, ...], has_word: Bool[Tensor, "W N"], seed: int = 0) -> Questions:
    """Every word with random pictures none of whose captions holds it."""
    random = np.random.default_rng(seed)
    drawn = [
        random.choice(np.flatnonzero(~row), min(EACH, int((~row).sum())), replace=False) for row in has_word.numpy()
    ]
    asked = torch.repeat_interleave(torch.arange(len(words)), torch.tensor([len(rows) for rows in drawn]))
    return Questions(torch.from_numpy(np.concatenate(drawn)), asked, words)


@torch.no_grad()
def scores_of(
    matcher: SingleMatcher, pictures: CaptionedFeatures, words: Sequence[str]
) -> tuple[Float[Tensor, "N N"], Float[Tensor, "W N"]]:
    """Stage one's scores of all pictures for every picture, and for every word."""
    parts = [pictures.regions(slice(start, start + BATCH)) for start in range(0, len(pictures), BATCH)]
    embeddings = torch.cat([matcher.encode_regions(part)[1] for part in parts])
    return matcher.similarity_query(embeddings) @ embeddings.T, matcher.encode_sentences(list(words))[1] @ embeddings.T


def judged(matcher: SingleMatcher, pictures: CaptionedFeatures) -> tuple[Questions, Mapping[str, Tensor]]:
    """The questions, and each ranking's nDCG for every question."""
    words, in_two, in_one = words_of_captions(pictures.captions)
    questions = questions_of(words, in_one)
    alike = caption_similarities([list(texts) for texts in pictures.captions]).float()
    worth = in_two[questions.words] * alike[questions.pictures].clamp_min(0) ** 2
    by_picture, by_word = scores_of(matcher, pictures, words)
    picture_scores, word_scores = by_picture[questions.pictures], by_word[questions.words]
    rankings = {
        "word": word_scores,
        "picture": picture_scores,
        **{f"word + {w} picture": word_scores + w * picture_scores for w in PICTURE_WEIGHTS},
    }
    return questions, {name: ndcg(scores, worth, questions.pictures) for name, scores in rankings.items()}


def main() -> None:
    """Print one JSON object."""
    args = captions_parser(__doc__).parse_args()
    torch.set_num_threads(1)
    pictures = given_pictures(args)
    questions, values = judged(given_matcher(args), pictures)
    is_defined = ~torch.isnan(values["word"])
    bounds = (0, len(pictures) // 2, len(pictures))
    halves: dict[str, Any] = {}
    for name, (first, end) in zip(("first half", "second half"), pairwise(bounds), strict=True):
        chosen = is_defined & (questions.pictures >= first) & (questions.pictures < end)
        halves[name] = compared_with("word", values, chosen.numpy())
    print(
        json.dumps(
            {"model": args.model, "words": len(questions.names), "questions": int(is_defined.sum()), **halves}, indent=1
        )
    )


if __name__ == "__main__":
    main()
