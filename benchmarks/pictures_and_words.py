"""Pictures like a picture that show something besides: the sum of stage one's two scores, judged by captions.

    python -m benchmarks.pictures_and_words --features FEATURES --captions captions.jsonl --split dev

A question is a picture and a word that none of its captions has; the words are those that captions of MOST_COMMON to
LEAST_COMMON of all pictures hold twice. Another picture is worth the square of its captions' likeness to those of the
picture asked with (the cosine of mean MiniLM vectors) where its captions hold the word, else nothing; nDCG@10 compares
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
EACH = 60  # pictures that every word is asked with
BATCH = 100
PICTURE_WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
"""Of the cosine with the picture, where the sentence's score has 1."""
NO_THINGS = """and are another down for four from front has her his into its off one other out over some that the their
there three through two while who with"""


class Questions(NamedTuple):
    """The picture and the word of every question, by number, and the words."""

    pictures: Int64[Tensor, " Q"]
    words: Int64[Tensor, " Q"]
    names: tuple[str, ...]


def words_of_captions(
    captions: Sequence[Sequence[str]],
) -> tuple[tuple[str, ...], Bool[Tensor, "W N"], Bool[Tensor, "W N"]]:
    """Words of some pictures' captions, whether two captions of a picture hold each, and whether one does."""
    counts = [Counter(word for text in own for word in set(re.findall(r"[a-z]{3,}", text.lower()))) for own in captions]
    common = Counter(word for each in counts for word, count in each.items() if count > 1)
    no_things, some = (
        set(NO_THINGS.split()),
        range(int(LEAST_COMMON * len(captions)), int(MOST_COMMON * len(captions)) + 1),
    )
    words = tuple(sorted(word for word, count in common.items() if count in some and word not in no_things))
    told = torch.tensor([[each[word] for each in counts] for word in words])
    return words, told > 1, told > 0


def questions_of(words: tuple[str, ...], told: Bool[Tensor, "W N"], seed: int = 0) -> Questions:
    """Every word with pictures, drawn at random, of whose captions none holds it."""
    random = np.random.default_rng(seed)
    drawn = [random.choice(np.flatnonzero(~row), min(EACH, int((~row).sum())), replace=False) for row in told.numpy()]
    asked = torch.repeat_interleave(torch.arange(len(words)), torch.tensor([len(some) for some in drawn]))
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
    """The questions, and each ranking's nDCG of every one."""
    words, shown, told = words_of_captions(pictures.captions)
    asked = questions_of(words, told)
    alike = caption_similarities([list(own) for own in pictures.captions]).float()
    worth = shown[asked.words] * alike[asked.pictures].clamp_min(0) ** 2
    by_picture, by_word = scores_of(matcher, pictures, words)
    like, says = by_picture[asked.pictures], by_word[asked.words]
    rankings = {"word": says, "picture": like, **{f"word + {w} picture": says + w * like for w in PICTURE_WEIGHTS}}
    return asked, {name: ndcg(scores, worth, asked.pictures) for name, scores in rankings.items()}


def main() -> None:
    """Print one JSON object."""
    given = captions_parser(__doc__).parse_args()
    torch.set_num_threads(1)
    pictures = given_pictures(given)
    asked, values = judged(given_matcher(given), pictures)
    told = ~torch.isnan(values["word"])
    bounds = (0, len(pictures) // 2, len(pictures))
    halves: dict[str, Any] = {}
    for name, (first, end) in zip(("first half", "second half"), pairwise(bounds), strict=True):
        chosen = told & (asked.pictures >= first) & (asked.pictures < end)
        halves[name] = compared_with("word", values, chosen.numpy())
    print(
        json.dumps({"model": given.model, "words": len(asked.names), "questions": int(told.sum()), **halves}, indent=1)
    )


if __name__ == "__main__":
    main()
