"""Searches of one round trip score a likely share of the shortlist in each shard, and miss little by it."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from service.search.requests import PictureFilter, TextSearchRequest
from tests.support.library import Library
from tests.support.shards import LocalReplica, engine_over, replica_of
from tests.support.split_collection import FILTERS, NUM, RED, answer, fill, same


def test_in_one_round_trip_each_shard_is_asked_once_and_scores_its_share(
    whole: Library, halves: list[list[LocalReplica]]
) -> None:
    engine = engine_over([[shard[0]] for shard in halves], whole, round_trips=1)
    for wanted in (None if given is None else PictureFilter(**given) for given in FILTERS):
        request = TextSearchRequest(query="red and blue", match="pictures", filter=wanted, k=5, shortlist=NUM)
        for shard in halves:
            shard[0].calls.clear()
        # Each half is smaller than the share of so long a shortlist, so that no candidate is missed.
        same(answer(engine, request), answer(whole.search, request))
        assert [shard[0].calls for shard in halves] == [["first_answer"]] * 2


def test_in_one_round_trip_a_shard_that_holds_far_more_than_its_share_is_asked_again(
    whole: Library, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        replicas = []
        for shard, numbers in enumerate((range(2, NUM), range(2))):  # as while a shard that was added is being filled
            library = stack.enter_context(closing(Library(tmp_path / str(shard))))
            fill(library, list(numbers))
            replicas.append(stack.enter_context(closing(replica_of(f"{shard}", library))))
        engine = engine_over([[replica] for replica in replicas], whole, round_trips=1)
        request = RED.model_copy(update={"k": NUM, "shortlist": NUM})
        same(answer(engine, request), answer(whole.search, request))
        assert [replica.calls for replica in replicas] == [["first_answer", "score_pictures"], ["first_answer"]]


def test_in_one_round_trip_what_is_found_has_its_right_score(whole: Library, halves: list[list[LocalReplica]]) -> None:
    engine = engine_over(halves, whole, round_trips=1)
    scores = {hit.image_id: hit.score for hit in answer(whole.search, RED.model_copy(update={"k": NUM})).results}
    found = answer(engine, RED.model_copy(update={"k": 3, "shortlist": 5}))
    assert len(found.results) == 3
    assert [hit.score for hit in found.results] == pytest.approx([scores[hit.image_id] for hit in found.results])


def test_a_picture_that_goes_before_it_is_scored_is_not_shown(whole: Library, tmp_path: Path) -> None:
    with closing(Library(tmp_path)) as library:
        fill(library, list(range(10)))
        doomed: list[str] = []

        def delete_first(work: Callable[[], Any]) -> Any:
            for image_id in doomed:
                library.catalog.delete(image_id, 0.0)
            return work()

        engine = engine_over([[replica_of("only", library, delete_first)]], whole, round_trips=1)
        best = answer(engine, RED).results[0].image_id
        doomed.append(best)
        found = [hit.image_id for hit in answer(engine, RED).results]
        assert found
        assert best not in found
