"""Rankings of similar pictures and what they are worth, against plain loops."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.similar_pictures import CUTOFF, gains, ndcg, region_similarities, without_hubs


@given(st.integers(0, 10_000), st.integers(1, 7))
def test_region_similarities_are_those_of_a_plain_loop(seed: int, batch: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    vectors = torch.randn(5, 4, 3, generator=draw)
    mask = torch.rand(5, 4, generator=draw) < 0.6
    mask[:, 0] = True
    found = region_similarities(vectors, mask, batch)
    for one in range(5):
        for other in range(5):
            ways = []
            for here, there in ((one, other), (other, one)):
                mine, theirs = vectors[here][mask[here]], vectors[there][mask[there]]
                ways.append(sum(max(float(a @ b) for b in theirs) for a in mine) / len(mine))
            assert float(found[one, other]) == pytest.approx(sum(ways) / 2, abs=1e-5)


def test_the_best_order_has_an_ndcg_of_one_and_a_worse_one_less() -> None:
    worth = torch.tensor([[0.0, 3.0, 1.0], [3.0, 0.0, 0.5], [1.0, 0.5, 0.0]])
    assert ndcg(worth, worth, torch.arange(3)).tolist() == pytest.approx([1.0, 1.0, 1.0])
    turned = ndcg(-worth, worth, torch.arange(3))
    discount = 1 / math.log2(3)
    assert float(turned[0]) == pytest.approx((1 + 3 * discount) / (3 + discount))


def test_a_picture_is_no_answer_to_itself() -> None:
    similarities = torch.eye(4) + 0.1 * torch.arange(16.0).reshape(4, 4) / 16
    assert gains(similarities).diagonal().tolist() == [0, 0, 0, 0]
    scores = torch.zeros(4, 4).fill_diagonal_(100.0)
    assert ndcg(scores, torch.ones(4, 4), torch.arange(4)).tolist() == pytest.approx([1.0] * 4)


def test_an_answer_to_everything_is_lowered_more_than_others() -> None:
    scores = torch.full((30, 30), 0.1)
    scores[:, 7] = 0.9
    lowered = without_hubs(scores)
    assert float(lowered[0, 7]) == pytest.approx(0.45)
    assert float(lowered[0, 3]) == pytest.approx(0.05)


def test_ndcg_is_that_of_a_plain_loop_without_the_picture_asked_with() -> None:
    draw = torch.Generator().manual_seed(1)
    scores, worth = torch.randn(4, 30, generator=draw), torch.rand(4, 30, generator=draw)
    own = torch.tensor([0, 7, 7, 29])
    found = ndcg(scores, worth, own)
    for question, mine in enumerate(own.tolist()):
        others = [picture for picture in range(30) if picture != mine]
        first = sorted(others, key=lambda picture: -float(scores[question, picture]))[:CUTOFF]
        best = sorted((float(worth[question, picture]) for picture in others), reverse=True)[:CUTOFF]
        gained = sum(float(worth[question, picture]) / math.log2(rank + 2) for rank, picture in enumerate(first))
        assert float(found[question]) == pytest.approx(
            gained / sum(value / math.log2(rank + 2) for rank, value in enumerate(best)), rel=1e-5
        )
