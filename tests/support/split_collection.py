"""A collection of pictures that can be split over shards, requests of every kind, and answers compared."""

import random
from typing import Any

import PIL.Image
import pytest

from models.matching.log_odds import LogOddsModel
from models.matching.match_verdict import MatchTest
from service.search.engine import SearchEngine
from service.search.requests import ImageSearchRequest, SearchRequest, TextSearchRequest
from service.search.results import SearchResult
from tests.support.fakes import COLOURS
from tests.support.library import NOW, Library

NUM = 40
LINE = LogOddsModel(8.0, -2.0, 3.0, 0.5)
TEST = MatchTest(LINE, 0.3, 0.6)
FILTERS: list[dict[str, Any] | None] = [
    None,
    {"tags": {"half": 1}},
    {"tags": {"word": ["red", "blue"]}},
    {"tags": {"number": {"gte": 5, "lte": 30}}},
    {"taken_at": "2023"},
    {"taken_at": {"gte": "2023-06"}, "tags": {"half": 0}},
    {"tags": {"half": "nowhere"}},
]
RED = TextSearchRequest(query="red and blue", match="pictures")
ASKED_TWICE = TextSearchRequest(query="png", k=5, shortlist=5)  # more texts hold the word than shards tell at once


def drawn(number: int) -> PIL.Image.Image:
    """A picture of four colours of its own, so that no two score the same."""
    draw = random.Random(number)
    picture = PIL.Image.new("RGB", (2, 2))
    picture.putdata([tuple(draw.randrange(256) for _ in range(3)) for _ in range(4)])
    return picture.resize((40, 20), PIL.Image.Resampling.NEAREST)


def captions_of(number: int) -> list[str]:
    """Captions of words that no other caption has together, so that no two score the same."""
    words, draw, drawn = list(COLOURS), random.Random(0), list[tuple[str, ...]]()
    while len(drawn) < 2 * NUM:
        caption = tuple(sorted(draw.choices(words, k=draw.randint(2, 7))))
        if caption not in drawn:
            drawn.append(caption)
    return [" ".join(drawn[2 * number + n]) for n in range(number % 3)]


def fill(library: Library, numbers: list[int]) -> None:
    words = list(COLOURS)
    for number in numbers:
        library.add(
            f"picture {number}",
            drawn(number),
            captions=captions_of(number),
            tags={"half": number % 2, "word": words[number % 8], "number": number},
            taken_at=None if number % 4 == 0 else 1_672_531_200.0 + 86_400 * 30 * number,
            added_at=NOW + number,
            view=False,
        )
    library.catch_up()


def same(one: SearchResult[Any], other: SearchResult[Any]) -> None:
    """Results are equal, scores within 1e-6."""
    names = [[(hit.image_id, getattr(hit, "text", None)) for hit in side.results] for side in (one, other)]
    assert names[0] == names[1]
    for mine, theirs in zip(one.results, other.results, strict=True):
        assert mine.score == pytest.approx(theirs.score, abs=1e-6)
        assert mine.probability == pytest.approx(theirs.probability, abs=1e-6)
        assert (mine.rank, mine.shortlist_rank) == (theirs.rank, theirs.shortlist_rank)
        assert getattr(mine, "found_by", ()) == getattr(theirs, "found_by", ())
        assert getattr(mine, "captions", ()) == getattr(theirs, "captions", ())
        assert (mine.explanation is None) == (theirs.explanation is None)
        if mine.explanation is not None and theirs.explanation is not None:
            assert mine.explanation.regions == theirs.explanation.regions
            assert mine.explanation.words == theirs.explanation.words
            if theirs.explanation.contributions is not None:
                assert mine.explanation.contributions == pytest.approx(theirs.explanation.contributions, abs=1e-6)
    assert (one.left_out, one.matched) == (other.left_out, other.matched)
    assert (one.origin.model, one.origin.k) == (other.origin.model, other.origin.k)


def answer(engine: SearchEngine, request: SearchRequest) -> SearchResult[Any]:
    if isinstance(request, TextSearchRequest):
        return engine.text(engine.begin(request))
    assert isinstance(request, ImageSearchRequest)
    assert request.image_id is not None
    return engine.like_stored(engine.begin(request), request.image_id)
