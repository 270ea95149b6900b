"""The shards of a query say how they are with its shortlist, or while its question is encoded, and score and look for
its words in one call."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from service.cluster.fan_out import FanOut
from service.cluster.open_shards import TooFewShards
from service.cluster.placement import Placement
from service.cluster.router import ClusterEngine
from service.cluster.sharded_gallery import ShardedGalleries
from service.errors import UnknownModel, ViewNotBuilt
from service.search.requests import TextSearchRequest
from tests.support.library import Library, two_coloured
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


def cluster_engine(library: Library, shards: list[LocalReplica]) -> ClusterEngine:
    fan_out = FanOut([[replica] for replica in shards], WAIT_S)
    galleries = ShardedGalleries(fan_out, library.models, library.extractor.digest, lambda: Placement(2))
    return ClusterEngine(galleries, library.models, library.extractor)


def awaited(event: threading.Event) -> None:
    assert event.wait(WAIT_S), "this is waited for before it is begun"


def test_the_question_is_encoded_while_shards_say_how_they_are(
    library: Library, shards: list[LocalReplica], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded, encode = threading.Event(), library.matcher.encode_sentences

    def noted(sentences: Any) -> Any:
        encoded.set()
        return encode(sentences)

    monkeypatch.setattr(library.matcher, "encode_sentences", noted)
    for replica in shards:
        replica.hold = partial(awaited, encoded)
    engine = engine_over([[replica] for replica in shards], library, round_trips=1)
    query = engine.begin(ASKED)
    assert not encoded.is_set()
    assert len(engine.text(query).results) == 2


@pytest.mark.parametrize(
    ("round_trips", "fields", "calls"),
    [
        (2, {}, ["open_shortlist", "score_pictures"]),
        (2, {"match": "pictures"}, ["open_shortlist", "score_pictures"]),
        (2, {"match": "text"}, ["state", "text_matches"]),
        (2, {"filter": {"tags": {"none": 1}}}, ["open_shortlist", "score_pictures"]),
        (1, {}, ["state", "scored_shortlist"]),
    ],
)
def test_a_search_asks_each_shard_twice(
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


def test_too_few_shards_are_not_asked_again(library: Library, shards: list[LocalReplica]) -> None:
    engine = cluster_engine(library, shards)
    shards[0].fault = ConnectionError("gone")
    with pytest.raises(TooFewShards, match="1 of 2 shards do not answer"):
        engine.text(engine.begin(ASKED.model_copy(update={"partial": False})))
    assert shards[1].calls == ["open_shortlist"]


def test_a_problem_of_the_first_step_is_that_of_the_search(library: Library, shards: list[LocalReplica]) -> None:
    engine = cluster_engine(library, shards)
    shards[0].fault = ViewNotBuilt("not yet")
    query = engine.begin(ASKED)
    with pytest.raises(ViewNotBuilt, match="not yet"):
        engine.text(query)
    with pytest.raises(UnknownModel):
        engine.begin(ASKED.model_copy(update={"model": "none"}))
