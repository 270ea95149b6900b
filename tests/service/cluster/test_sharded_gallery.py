"""Searches over shards give the answer of one machine with the same pictures, and say so where they cannot."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from service.cluster.cluster_view import ClusterView, ShardView
from service.cluster.messages import Behind, ShardLost
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import FanOut
from service.cluster.routing.known_shards import KnownShards
from service.cluster.routing.router import WithoutLostShards
from service.cluster.routing.sharded_gallery import ShardedGalleries
from service.errors import NotFound, UnknownModel
from service.search.engine import SearchEngine
from service.search.requests import ImageSearchRequest, SearchRequest, TextSearchRequest
from service.search.results import ShardCounts
from tests.support.fakes import COLOURS
from tests.support.library import Library, image_id_of
from tests.support.shards import LocalReplica, engine_over, replica_of
from tests.support.split_collection import ASKED_TWICE, FILTERS, NUM, RED, answer, drawn, fill, same


def split_engine(folder: Path, whole: Library, split: list[int], num_shards: int, stack: ExitStack) -> SearchEngine:
    shards = []
    for shard in range(num_shards):
        library = stack.enter_context(closing(Library(folder / str(shard))))
        fill(library, [number for number in range(NUM) if split[number] == shard])
        library.matcher.calibration = whole.matcher.calibration
        shards.append([stack.enter_context(closing(replica_of(f"{shard}", library)))])
    return engine_over(shards, whole)


def questions(split: list[int]) -> Iterator[SearchRequest]:
    """Requests of every kind, some of them drawn by the split."""
    draw = random.Random(str(split))
    for n, chosen in enumerate(FILTERS):
        words = draw.choices([*COLOURS, "picture", "png", "7", "half"], k=draw.randint(1, 4))
        shortlist = draw.choice([5, 12, NUM])
        common: dict[str, Any] = {"filter": chosen, "k": draw.randint(1, 5), "shortlist": shortlist}
        yield TextSearchRequest(query=" ".join(words), match=draw.choice(["pictures", "text", "both"]), **common)
        yield TextSearchRequest(
            query="red and blue", explain=n % 2 == 0, sort=draw.choice(["relevance", "date"]), **common
        )
        asked = image_id_of(f"picture {draw.randrange(NUM)}")
        yield ImageSearchRequest(image_id=asked, target="captions", explain=n % 2 == 1, **common)
        yield ImageSearchRequest(image_id=asked, target="images", **common)
    yield TextSearchRequest(query="white black", min_probability=0.01, k=NUM, shortlist=NUM)
    yield TextSearchRequest(query="cyan", min_score=0.9, k=NUM, shortlist=NUM)
    yield TextSearchRequest(query="red -blue -white", explain=True, k=5, shortlist=12)
    yield TextSearchRequest(query="no red", explain=True, k=5, shortlist=12)


# Nothing is shrunk: a smaller split says no more, and each try builds shards.
@pytest.mark.slow
@settings(deadline=None, max_examples=4, phases=[Phase.explicit, Phase.generate])
@given(
    num_shards=st.sampled_from([1, 2, 3, 5]),
    split=st.lists(st.integers(0, 4), min_size=NUM, max_size=NUM),
)
def test_any_split_answers_as_one_machine_does(
    whole: Library, tmp_path_factory: pytest.TempPathFactory, num_shards: int, split: list[int]
) -> None:
    with ExitStack() as stack:
        shards = [shard % num_shards for shard in split]
        engine = split_engine(tmp_path_factory.mktemp("shards"), whole, shards, num_shards, stack)
        # A stored picture is asked of the shard that it is placed in, which a drawn split does not know.
        engine._galleries.features = whole.search._galleries.features  # type: ignore[method-assign]
        for request in questions(split):
            merged = answer(engine, request)
            same(merged, answer(whole.search, request))
            assert merged.shards == ShardCounts(num_shards, num_shards)


@pytest.mark.parametrize("fault", [ConnectionError("gone"), Behind("catching up")])
def test_a_replica_that_fails_is_replaced_by_its_sibling(
    whole: Library, halves: list[list[LocalReplica]], fault: Exception
) -> None:
    engine, healthy = engine_over(halves, whole), answer(whole.search, RED)
    for shard in halves:
        shard[0].fault = fault
    for _ in range(4):
        found = answer(engine, RED)
        assert [hit.image_id for hit in found.results] == [hit.image_id for hit in healthy.results]
        assert found.shards == ShardCounts(2, 2)


def test_a_shard_without_a_replica_makes_the_answer_partial_or_refused(
    whole: Library, halves: list[list[LocalReplica]]
) -> None:
    engine = engine_over(halves, whole)
    for replica in halves[0]:
        replica.fault = ConnectionError("gone")
    found = answer(engine, RED)
    assert found.shards == ShardCounts(asked=2, answered=1)
    numbers = {image_id_of(f"picture {number}"): number for number in range(NUM)}
    assert {numbers[hit.image_id] % 2 for hit in found.results} == {1}
    with pytest.raises(ShardLost, match="1 of 2 shards do not answer"):
        answer(engine, RED.model_copy(update={"partial": False}))
    for replica in halves[1]:
        replica.fault = ConnectionError("gone")
    with pytest.raises(ShardLost, match="2 of 2 shards"):
        answer(engine, RED)


def test_a_version_tells_a_partial_answer_from_a_whole_one(whole: Library, halves: list[list[LocalReplica]]) -> None:
    engine = engine_over(halves, whole)
    versions = {engine.begin(RED).index_version}
    for replica in halves[0]:
        replica.fault = ConnectionError("gone")
    versions.add(engine.begin(RED).index_version)
    assert len(versions) == 2


def test_a_problem_of_a_shard_is_that_of_the_search(whole: Library, halves: list[list[LocalReplica]]) -> None:
    engine = engine_over(halves, whole)
    for replica in (replica for shard in halves for replica in shard):
        replica.fault = NotFound("There is no such thing.")
    with pytest.raises(NotFound, match="no such thing"):
        answer(engine, RED)
    with pytest.raises(UnknownModel):
        engine.begin(RED.model_copy(update={"model": "none"}))


def test_a_picture_that_is_being_moved_counts_once_and_where_it_stays(whole: Library, tmp_path: Path) -> None:
    with ExitStack() as stack:
        libraries = [stack.enter_context(closing(Library(tmp_path / str(shard)))) for shard in range(2)]
        for library, numbers in zip(libraries, (range(NUM), range(0, NUM, 2)), strict=True):
            fill(library, list(numbers))
        replicas = [stack.enter_context(closing(replica_of(f"{n}", one))) for n, one in enumerate(libraries)]
        engine = engine_over([[replica] for replica in replicas], whole)
        request = RED.model_copy(update={"explain": True, "k": NUM, "shortlist": NUM})  # more than shards score at once
        query = engine.begin(request)
        moved = {image_id_of(f"picture {number}") for number in range(0, NUM, 2)}
        steps: list[str] = []

        def let_go() -> None:
            """What is in the second shard is let go from the first once stage one has seen it there."""
            if replicas[0].calls[-1] == "score_pictures" and not steps:
                steps.append("gone")
                for image_id in moved:
                    libraries[0].catalog.delete(image_id, 0.0)

        replicas[0].hold = let_go
        found = engine.text(query)
        assert steps == ["gone"]
        expected = answer(whole.search, request)
        assert [hit.image_id for hit in found.results] == [hit.image_id for hit in expected.results]
        assert [hit.score for hit in found.results] == pytest.approx([hit.score for hit in expected.results], abs=1e-6)


def test_a_picture_that_is_being_moved_is_described_as_where_it_stays(whole: Library, tmp_path: Path) -> None:
    with ExitStack() as stack:
        libraries = [stack.enter_context(closing(Library(tmp_path / str(shard)))) for shard in range(2)]
        for library, caption in zip(libraries, ("before", "after"), strict=True):
            library.add("moved", drawn(0), captions=[caption])
        replicas = [stack.enter_context(closing(replica_of(f"{n}", one))) for n, one in enumerate(libraries)]
        found = answer(engine_over([[replica] for replica in replicas], whole), RED)
        assert [getattr(hit, "captions", None) for hit in found.results] == [("after",)]


@pytest.mark.parametrize("explain", [False, True])
def test_a_sibling_that_does_not_find_a_moved_picture_yet_leaves_it_to_the_shard_where_it_was(
    whole: Library, tmp_path: Path, explain: bool
) -> None:
    with ExitStack() as stack:
        libraries = [stack.enter_context(closing(Library(tmp_path / str(number)))) for number in range(3)]
        moved = [number for number in range(NUM) if number % 8]  # more than a shard scores at once
        for library, numbers in zip(libraries, (range(NUM), moved, [1]), strict=True):
            fill(library, list(numbers))
        first, second, behind = (
            stack.enter_context(closing(replica_of(f"{n}", one))) for n, one in enumerate(libraries)
        )

        def fail_when_scoring() -> None:
            if second.calls[-1] == "score_pictures":
                raise ConnectionError("too slow")

        second.hold = fail_when_scoring
        galleries = ShardedGalleries(
            FanOut([[first], [behind, second]], 30.0), whole.models, whole.extractor.digest, lambda: Placement(2)
        )
        # Calls begin with the second.
        engine = SearchEngine(galleries, whole.models, whole.extractor, WithoutLostShards(galleries))
        request = RED.model_copy(update={"explain": explain, "k": NUM, "shortlist": NUM})
        found, expected = answer(engine, request), answer(whole.search, request)
        if not explain:
            assert behind.calls == ["score_pictures"]  # and nothing more: what was scored elsewhere is read there
        assert [hit.image_id for hit in found.results] == [hit.image_id for hit in expected.results]
        assert [hit.score for hit in found.results] == pytest.approx([hit.score for hit in expected.results], abs=1e-6)
        assert all((hit.explanation is not None) == explain for hit in found.results)


def test_a_shard_that_is_lost_during_a_search_is_left_out_of_it(
    whole: Library, halves: list[list[LocalReplica]]
) -> None:
    galleries = ShardedGalleries(FanOut(halves, 30.0), whole.models, whole.extractor.digest, lambda: Placement(2))
    engine = SearchEngine(galleries, whole.models, whole.extractor, WithoutLostShards(galleries))

    def fail(replica: LocalReplica) -> None:
        if replica.calls[-1] == "score_pictures":
            raise ConnectionError("overloaded")

    for replica in halves[0]:
        replica.hold = partial(fail, replica)
    found = answer(engine, ASKED_TWICE)
    assert found.shards == ShardCounts(asked=2, answered=1)
    assert found.results
    with pytest.raises(ShardLost, match="1 of 2 shards"):
        answer(engine, ASKED_TWICE.model_copy(update={"partial": False}))


def test_a_query_stays_with_the_replicas_that_it_began_with(whole: Library, halves: list[list[LocalReplica]]) -> None:
    engine = engine_over(halves, whole)
    for _ in range(6):
        for replica in (one for shard in halves for one in shard):
            replica.calls.clear()
        answer(engine, RED)
        for shard in halves:
            assert sorted(bool(replica.calls) for replica in shard) == [False, True]


@pytest.fixture
def cut_off(whole: Library, halves: list[list[LocalReplica]]) -> tuple[SearchEngine, list[LocalReplica]]:
    """A router that the director told of two shards, and does not reach any more."""
    firsts = [shard[0] for shard in halves]
    shards = KnownShards(30.0, lambda shard, number: firsts[shard])
    shards.take(ClusterView([ShardView(frozenset({0}), 1, 0)] * 2))
    galleries = ShardedGalleries(shards.fan_out, whole.models, whole.extractor.digest, shards.placement)
    return SearchEngine(galleries, whole.models, whole.extractor, WithoutLostShards(galleries)), firsts


def test_a_router_that_does_not_know_of_a_shard_calls_no_answer_whole(
    cut_off: tuple[SearchEngine, list[LocalReplica]],
) -> None:
    engine, replicas = cut_off
    assert answer(engine, RED).shards == ShardCounts(asked=2, answered=2)
    replicas[0].placed_among = 3  # it let pictures go to a third shard
    found = answer(engine, RED)
    assert found.shards == ShardCounts(asked=3, answered=2)
    assert found.results
    with pytest.raises(ShardLost, match="1 of 3 shards"):
        answer(engine, RED.model_copy(update={"partial": False}))


@pytest.mark.parametrize("step", ["first_answer", "score_pictures"])
def test_pictures_that_move_on_during_a_search_make_it_partial(
    cut_off: tuple[SearchEngine, list[LocalReplica]], step: str
) -> None:
    engine, replicas = cut_off

    def move() -> None:
        if replicas[0].calls[-1] == step:
            replicas[0].placed_among = 3

    replicas[0].hold = move
    assert answer(engine, ASKED_TWICE).shards == ShardCounts(asked=3, answered=2)
