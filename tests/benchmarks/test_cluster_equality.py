"""The comparison of shards with one directory: its questions are of every kind, and it sees what differs."""

from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.cluster_equality import Comparison, compare, count_recall
from benchmarks.equality_questions import FILTERS, dressed, pairs_of_questions
from models.datasets.feature_collection import FeatureCollection, FeatureRecord
from service.search.requests import ImageSearchRequest, PictureFilter, TextSearchRequest
from service.search.results import Origin

RED = TextSearchRequest(query="red")
ORIGIN = Origin("fake", "fake", k=10, shortlist=10, index_version="1")


@dataclass
class Hit:
    image_id: str
    score: float
    rank: int = 1
    shortlist_rank: int = 1
    probability: float | None = None
    explanation: None = None


@dataclass
class Found:
    results: list[Hit]
    left_out: int = 0
    origin: Origin = ORIGIN
    matched: bool | None = field(default=None)


def test_every_filter_and_every_kind_of_question_is_asked() -> None:
    records = [
        FeatureRecord(name=f"{n}.jpg", features=np.full((1, 2), n, np.float16), labels=("a",), captions=(f"dog {n}",))
        for n in range(40)
    ]
    collection = FeatureCollection(extractor="e", num_regions=1, feature_dim=2, pictures=lambda: iter(records))
    sources = [dressed(n, record, collection) for n, record in enumerate(records)]
    pairs = list(pairs_of_questions(sources, 200))
    assert len(pairs) == 200
    asked = [filtered.filter for _, filtered in pairs]
    assert all(PictureFilter.model_validate(one) in asked for one in FILTERS)
    plain = [one for one, _ in pairs]
    texts = [one for one in plain if isinstance(one, TextSearchRequest)]
    images = [one for one in plain if isinstance(one, ImageSearchRequest)]
    assert {one.match for one in texts} == {"pictures", "text", "both"}
    assert {one.target for one in images} == {"captions", "images"}
    for name in ("explain", "group_near_duplicates"):
        assert {getattr(one, name) for one in plain} == {True, False}
    assert {one.sort for one in texts} == {"relevance", "date"}
    assert any(one.min_score is not None for one in plain)
    assert any(one.min_probability is not None for one in plain)
    assert len({one.looks for one in sources}) < len(sources)


def test_a_difference_is_seen() -> None:
    one = Found([Hit("a", 0.5), Hit("b", 0.4, rank=2)])
    others = [
        (one, 0),
        (Found([Hit("a", 0.5 + 9e-7), Hit("b", 0.4, rank=2)]), 0),
        (Found([Hit("a", 0.5 + 2e-6), Hit("b", 0.4, rank=2)]), 1),
        (Found(one.results[::-1]), 1),
        (Found(one.results[:1]), 1),
        (replace(one, matched=True), 1),
        (replace(one, left_out=3), 1),
    ]
    for other, differ in others:
        comparison = Comparison(2)
        compare(one, other, comparison, RED)
        assert (comparison.asked, len(comparison.faults)) == (1, differ)


def test_recall_counts_the_best_that_are_found_again() -> None:
    comparison = Comparison(2)
    two = Found([Hit("a", 0.5), Hit("b", 0.4)])
    count_recall(two, two, comparison)
    count_recall(two, Found([Hit("b", 0.4), Hit("c", 0.3)]), comparison)
    assert comparison.summary()["recall"] == 3 / 4
    assert comparison.summary()["same best results"] == 1 / 2
