"""Descriptions of too many captions or tags are refused by all replicas alike; one that refuses alone is caught up."""

import pickle
from dataclasses import replace

import pytest

from index.catalog.changes.description_bounds import MOST_TAGS, OversizedDescription
from service.cluster.operations import Edit
from tests.support.directories import Directory, take_in, writer_of


def captions(first: int, count: int) -> list[str]:
    return [f"caption {number}" for number in range(first, first + count)]


def test_what_is_too_much_is_refused_by_all_replicas_alike(pair: list[Directory]) -> None:
    writer = writer_of(pair, 2)
    operation, files = take_in("red")
    (red,) = files
    writer.write(replace(operation, pictures=[replace(operation.pictures[0], captions=captions(0, 600))]), files)
    before = pair[0].state()
    tags = {f"tag {number}": 1 for number in range(MOST_TAGS + 1)}
    more = replace(operation, pictures=[replace(operation.pictures[0], captions=captions(600, 401))])
    for one, excess in ((Edit(image_id=red, changes={"tags": tags}), "1001 tags"), (more, "1001 captions")):
        with pytest.raises(OversizedDescription, match=f"would have {excess}, and may have 1000") as refusal:
            writer.write(one, files)
        assert pickle.loads(pickle.dumps(refusal.value)).refused == refusal.value.refused
        assert (pair[0].state(), pair[1].state()) == (before, before)
        assert writer.membership().members == {0, 1}
    assert writer.write(replace(more, bounded=False), files)[0] == 2  # as it moves from another shard
    assert len(pair[1].catalog.image(red).captions) == 1001  # type: ignore[union-attr]


def test_a_replica_that_alone_has_too_much_said_catches_up(pair: list[Directory]) -> None:
    writer = writer_of(pair)
    operation, files = take_in("red")
    writer.write(operation, files)
    pair[1].detect()  # which adds what the file says, before the other one
    full = replace(operation, pictures=[replace(operation.pictures[0], captions=captions(0, 1000))])
    assert writer.write(full, files)[0] == 2
    assert writer.membership().members == {0}
    writer.tend()
    assert writer.membership().members == {0, 1}
    pair[0].detect()
    assert [len(one.catalog.image(*files).captions) for one in pair] == [1001, 1001]  # type: ignore[union-attr]
