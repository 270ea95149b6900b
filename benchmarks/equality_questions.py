"""Questions of every kind, with every kind of filter, about pictures with random tags."""

import random
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from benchmarks.local_shards import Source
from index.records import PictureChange
from models.datasets.feature_collection import FeatureCollection, FeatureRecord
from service.search.requests import ImageSearchRequest, PictureFilter, SearchRequest, TextSearchRequest

FIRST_ARRIVAL = 1_700_000_000.0
FIRST_DATE = 1_546_300_800.0  # 2019-01-01 in UTC
DAY_S = 86_400.0
PLACES = ("Oslo", "Bergen", "Turin", "Lima", "Kyoto")
KINDS = ("photo", "scan", "drawing")
MONTHS = ("May 2021", "14 May 2020", "2022-03", "2019", "August 2020")
ALIKE = 10  # of that many pictures in a row, two look the same

FILTERS: list[dict[str, Any]] = [
    {"tags": {"kind": "photo"}},
    {"tags": {"place": ["Oslo", "Lima"]}},
    {"tags": {"number": {"gte": 10, "lte": 60}}},
    {"tags": {"number": {"gte": 90}}},
    {"tags": {"number": 7}},
    {"tags": {"number": [1, 2, "3"]}},
    {"tags": {"share": {"lte": 0.5}}},
    {"tags": {"year": {"gte": 2020, "lte": 2022}}},
    {"tags": {"year": "2021"}},
    {"tags": {"place": {"gte": "K", "lte": "P"}}},
    {"tags": {"place": "Oslo", "kind": ["photo", "scan"], "number": {"gte": 20}}},
    {"taken_at": "2021"},
    {"taken_at": "2020-05"},
    {"taken_at": "2022-02-14"},
    {"taken_at": {"gte": "2021-06"}},
    {"taken_at": {"lte": "2020-12-31"}},
    {"taken_at": {"gte": "2020-01-01T00:00:00Z", "lte": "2021-01-01T12:00:00+01:00"}},
    {"taken_at": {"gte": "2020"}, "tags": {"place": ["Turin", "Kyoto"]}},
    {"tags": {"place": "nowhere"}},
    {"tags": {"unknown": 1}},
]


def dressed(number: int, record: FeatureRecord, collection: FeatureCollection) -> Source:
    """A picture with tags and a date drawn by its number; every fifth has no date, every seventh no tags."""
    draw = random.Random(number)
    tags: dict[str, Any] = {
        "kind": draw.choice(KINDS),
        "place": draw.choice(PLACES),
        "number": draw.randrange(100),
        "share": draw.random(),
        "year": str(draw.randrange(2019, 2025)),
    }
    taken_at = None if number % 5 == 0 else FIRST_DATE + DAY_S * draw.randrange(6 * 365)
    looks = random.Random(number // 2 if number % ALIKE < 2 else -number - 1).randbytes(8)
    return Source(
        image_id=record.image_id(collection.extractor),
        record=record,
        collection=collection,
        added_at=FIRST_ARRIVAL + number,
        change=PictureChange(tags={} if number % 7 == 0 else tags, taken_at=taken_at),
        looks=looks,
    )


def pairs_of_questions(sources: Sequence[Source], count: int) -> Iterator[tuple[SearchRequest, SearchRequest]]:
    """`count` questions, each without a filter and with one; the filters take turns."""
    draw = random.Random(0)
    for number in range(count):
        source = sources[number * 7919 % len(sources)]
        filtered = {"filter": FILTERS[(number + number // 8) % len(FILTERS)]}
        k = draw.choice([1, 5, 10, 30])
        common: dict[str, Any] = {"k": k, "shortlist": max(k, draw.choice([20, 100, 300]))}
        make = question_about(number, source, draw)
        yield make(**common), make(**common, **filtered)


def pairs_of_sentences(sources: Sequence[Source], count: int) -> Iterator[tuple[SearchRequest, SearchRequest]]:
    """`count` captions as questions of default size, each without a filter and with one."""
    for number in range(count):
        captions = sources[number * 7919 % len(sources)].record.captions
        make = partial(TextSearchRequest, query=captions[number % len(captions)], match="pictures")
        yield make(), make(filter=PictureFilter(**FILTERS[number % len(FILTERS)]))


def question_about(number: int, source: Source, draw: random.Random) -> Any:
    """A request without size and filter; the kinds take turns by `number`."""
    caption = draw.choice(source.record.captions)
    stem = PurePosixPath(source.record.name).stem
    limits: dict[str, Any] = draw.choice([{"min_score": 0.0}, {"min_probability": 0.05}, {"sort": "date"}])
    kinds: list[dict[str, Any]] = [
        {"query": draw.choice([stem, stem.split("_")[0]]), "match": draw.choice(["text", "both"])},
        {"query": draw.choice([*MONTHS, f"dog {draw.choice(MONTHS)}", draw.choice(PLACES)])},
        {"target": "captions", "explain": number % 16 == 2},
        {"target": "images", "group_near_duplicates": number % 16 == 3},
        {"query": caption, "match": "pictures", **limits},
        {"query": caption, "explain": True},
        {"query": caption, "group_near_duplicates": True},
        {"query": caption, "match": "pictures"},
    ]
    fields = kinds[number % len(kinds)]
    if "query" in fields:
        return partial(TextSearchRequest, **fields)
    return partial(ImageSearchRequest, image_id=source.image_id, **fields)
