"""The shards of a query are asked once: they say how they are, rank, score and look for words in one call."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from service.cluster.placement import Placement
from service.cluster.routing.fan_out import FanOut
from service.cluster.routing.open_shards import TooFewShards
from service.cluster.routing.router import WithoutLostShards
from service.cluster.routing.sharded_gallery import ShardedGalleries
from service.errors import UnknownModel, ViewNotBuilt
from service.search.engine import SearchEngine
from service.search.requests import ImageSearchRequest, TextSearchRequest
from tests.support.library import Library, image_id_of, two_coloured
from tests.support.shards import LocalReplica, engine_over, replica_of

WAIT_S = 30.0
ASKED = TextSearchRequest(query="red", k=3)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with closing(Library(tmp_path / "library")) as library:
        yield library


@pytest.fixture
def shards(library: Library, tmp_path: Path) -> Iterator[list[LocalReplica]]:
    """Two shards with a picture each."""
    with ExitStack() as stack:
        replicas = []
        for colour in ("red", "blue"):
            own = stack.enter_context(closing(Library(tmp_path / colour)))
            own.add(colour, two_coloured(colour, colour), captions=[f"a {colour} one"])
            own.catch_up()
            replicas.append(stack.enter_context(closing(replica_of(colour, own))))
        yield replicas


def cluster_engine(library: Library, shards: list[LocalReplica]) -> SearchEngine:
    fan_out = FanOut([[replica] for replica in shards], WAIT_S)
    galleries = ShardedGalleries(fan_out, library.models, library.extractor.digest, lambda: Placement(2))
    return SearchEngine(galleries, library.models, library.extractor, WithoutLostShards(galleries))


def awaited(event: threading.Event) -> None:
    assert event.wait(WAIT_S), "this is waited for before it is begun"


def test_the_question_is_encoded_while_shards_say_how_they_are(
    library: Library, shards: list[LocalReplica], monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add("red", two_coloured("red", "red"))
    encoded, encode = threading.Event(), library.matcher.encode_regions

    def noted(regions: Any) -> Any:
        encoded.set()
        return encode(regions)

    monkeypatch.setattr(library.matcher, "encode_regions", noted)
    for replica in shards:
        replica.hold = partial(awaited, encoded)
    engine = engine_over([[replica] for replica in shards], library)
    query = engine.begin(ImageSearchRequest(image_id=image_id_of("red"), target="captions"))
    assert not encoded.is_set()
    assert len(engine.image(query, library.features(image_id_of("red"))).results) == 2


@pytest.mark.parametrize(
    ("round_trips", "fields", "calls"),
    [
        (2, {}, ["first_answer"]),
        (2, {"match": "pictures"}, ["first_answer"]),
        (2, {"match": "text"}, ["state", "text_matches"]),
        (2, {"filter": {"tags": {"none": 1}}}, ["first_answer"]),
        (1, {}, ["first_answer"]),
    ],
)
def test_a_search_for_a_sentence_asks_each_shard_once(
    library: Library, shards: list[LocalReplica], round_trips: int, fields: dict[str, Any], calls: list[str]
) -> None:
    engine = engine_over([[replica] for replica in shards], library, round_trips=round_trips)
    engine.text(engine.begin(TextSearchRequest(query="red", k=3, **fields)))
    assert [replica.calls for replica in shards] == [calls, calls]


def test_words_are_looked_for_where_no_picture_is_scored(library: Library, shards: list[LocalReplica]) -> None:
    engine = engine_over([[replica] for replica in shards], library)
    found = engine.text(engine.begin(TextSearchRequest(query="a blue one", k=1, shortlist=1))).results
    assert [(hit.filename, hit.found_by) for hit in found] == [("blue.png", ("pictures", "text"))]


@pytest.mark.parametrize("round_trips", [1, 2])
def test_texts_that_match_may_all_lie_in_one_shard(
    library: Library, shards: list[LocalReplica], tmp_path: Path, round_trips: int
) -> None:
    with closing(Library(tmp_path / "beach")) as own:
        for number in range(12):
            own.add(f"beach {number}", two_coloured("red", "blue"), view=False)
        own.catch_up()
        with closing(replica_of("beach", own)) as full:
            engine = engine_over([[replica] for replica in (*shards, full)], library, round_trips=round_trips)
            found = engine.text(engine.begin(TextSearchRequest(query="beach", k=14, shortlist=14))).results
    assert sum("text" in hit.found_by for hit in found) == 12


def test_shards_with_many_texts_are_asked_for_them_once_more(
    library: Library, shards: list[LocalReplica], tmp_path: Path
) -> None:
    with closing(Library(tmp_path / "beach")) as own:
        for number in range(4):
            own.add(f"beach {number}", two_coloured("red", "blue"), view=False)
        own.catch_up()
        with closing(replica_of("beach", own)) as full:
            engine = engine_over([[replica] for replica in (*shards, full)], library)
            found = engine.text(engine.begin(TextSearchRequest(query="beach", k=3, shortlist=3))).results
            assert [replica.calls for replica in (*shards, full)] == [["first_answer"]] * 2 + [
                ["first_answer", "score_pictures"]
            ]
    assert all("text" in hit.found_by for hit in found)


def test_a_cluster_without_a_shard_says_that_none_answers(library: Library) -> None:
    engine = engine_over([], library)
    with pytest.raises(TooFewShards, match="0 of 0 shards"):
        engine.text(engine.begin(ASKED))


def test_a_query_whose_version_was_asked_for_is_answered_alike(library: Library, shards: list[LocalReplica]) -> None:
    engine = engine_over([[replica] for replica in shards], library)
    query = engine.begin(ASKED)
    assert query.index_version
    expected = engine.text(engine.begin(ASKED)).results
    assert [(hit.image_id, hit.score) for hit in engine.text(query).results] == [
        (hit.image_id, hit.score) for hit in expected
    ]


def test_too_few_shards_are_not_asked_again(library: Library, shards: list[LocalReplica]) -> None:
    engine = cluster_engine(library, shards)
    shards[0].fault = ConnectionError("gone")
    with pytest.raises(TooFewShards, match="1 of 2 shards do not answer"):
        engine.text(engine.begin(ASKED.model_copy(update={"partial": False})))
    assert shards[1].calls == ["first_answer"]


def test_a_problem_of_the_first_step_is_that_of_the_search(library: Library, shards: list[LocalReplica]) -> None:
    engine = cluster_engine(library, shards)
    shards[0].fault = ViewNotBuilt("not yet")
    query = engine.begin(ASKED)
    with pytest.raises(ViewNotBuilt, match="not yet"):
        engine.text(query)
    with pytest.raises(UnknownModel):
        engine.begin(ASKED.model_copy(update={"model": "none"}))
