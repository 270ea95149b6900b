"""A picture that one of its shards finds has that shard's score and record, whichever shard answers first."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from index.records import Image
from service.cluster.routing.merging import RowTable
from service.cluster.routing.shard_scores import ShardScores
from service.cluster.shards.search import ABSENT

BLANK: dict[str, Any] = {field.name: None for field in fields(Image)}
MOVED = Image(**{**BLANK, "image_id": "moved"})
FOUND, GONE = {"moved": np.float32(0.5)}, {"moved": np.float32(ABSENT)}


def table() -> RowTable[str]:
    """Two pictures of shard 1, of which shard 0 has one, too."""
    rows = RowTable[str]()
    for name in ("moved", "stays"):
        rows.of(1, name)
        rows.note(1, name)
    rows.note(0, "moved")
    return rows


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_shard_that_finds_it_counts(order: tuple[int, int]) -> None:
    pictures, answers = table(), [(GONE, list[Image]()), (FOUND, [MOVED])]
    scores = ShardScores(pictures)
    for n in order:
        scores.take(*answers[n])
    assert (scores.unscored([0, 1]), scores.unread([0, 1])) == ([1], [1])
    assert scores.elsewhere([0]) == {}
    assert scores.of_rows([0]).tolist() == [0.5]
    assert scores.images_of([0]) == [replace(MOVED, slot=0)]


def test_what_no_shard_has_found_yet_is_asked_of_the_other_one() -> None:
    pictures = table()
    scores = ShardScores(pictures)
    scores.take(GONE, [])
    assert scores.images_of([0]) == [None]
    assert scores.elsewhere([0]) == {0: ["moved"]}
    scores.take(FOUND, [])
    assert scores.elsewhere([0]) == {}
    assert scores.unread([0]) == [0]  # it is shown after all, and its record is yet to be read
