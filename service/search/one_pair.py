"""The score and explanation of one sentence with one picture, without a shortlist or a view."""

from dataclasses import dataclass

from models.matching.matcher import Matcher
from service.search.explain import explain_pair
from service.search.results import PairExplanation
from service.storage.regions.records import PictureFeatures


@dataclass(frozen=True)
class ExplainedPair:
    """The score of a sentence with a picture, explained."""

    score: float
    explanation: PairExplanation


def explain_one(matcher: Matcher, sentence: str, picture: PictureFeatures) -> ExplainedPair:
    """The pair scored and explained by a model. ValueError, for people to read, for a sentence without a word."""
    images, _ = matcher.encode_regions(picture.as_batch())
    words, _ = matcher.encode_sentences([sentence])
    explanation = explain_pair(matcher.explain(images, words), 0, 0, matcher.words(sentence), picture)
    return ExplainedPair(float(matcher.score(images, words)[0, 0]), explanation)
