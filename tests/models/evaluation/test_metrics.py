"""Ranks and recalls against a slow definition, and the decided cases."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models.evaluation import metrics
from models.evaluation.metrics import (
    Recalls,
    Shortlists,
    image_to_text_ranks,
    rsum,
    stage_one_ranks_of_best,
    text_to_image_ranks,
)

matrices = arrays(np.float32, (6, 3), elements=st.integers(-3, 3).map(float))
IMAGE_OF = torch.tensor([0, 0, 1, 1, 2, 2])


@given(matrices)
def test_ranks_count_what_stands_before_and_ties_count_against(scores: np.ndarray) -> None:
    matrix = torch.tensor(scores)
    for q, own in enumerate(IMAGE_OF.tolist()):
        before = sum(scores[q, k] >= scores[q, own] for k in range(3) if k != own)
        assert text_to_image_ranks(matrix, IMAGE_OF)[q] == before
    for k in range(3):
        best = max(scores[q, k] for q in range(6) if IMAGE_OF[q] == k)
        before = sum(scores[q, k] >= best for q in range(6) if IMAGE_OF[q] != k)
        assert image_to_text_ranks(matrix, IMAGE_OF)[k] == before


def test_nan_never_wins() -> None:
    scores = torch.tensor([[float("nan"), 0.0], [1.0, float("nan")]])
    assert text_to_image_ranks(scores, torch.tensor([0, 1])).tolist() == [1, 1]


def test_a_constant_score_earns_nothing() -> None:
    assert text_to_image_ranks(torch.zeros(6, 3), IMAGE_OF).tolist() == [2] * 6
    assert image_to_text_ranks(torch.zeros(6, 3), IMAGE_OF).tolist() == [4] * 3


def test_recalls_by_hand() -> None:
    recalls = Recalls.of(np.array([0, 0, 4, 7, 30]))
    assert recalls == Recalls(r1=40.0, r5=60.0, r10=80.0, median_rank=5.0)
    assert rsum(recalls, recalls) == 360.0


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(4)
    scores, stage_one = torch.randn(2, 21, 7, generator=generator)
    image_of = torch.arange(7).repeat_interleave(3)
    for shortlists in (None, Shortlists(stage_one, 3)):
        whole = [judged(scores, image_of, shortlists) for judged in (text_to_image_ranks, image_to_text_ranks)]
        monkeypatch.setattr(metrics, "QUESTIONS_AT_ONCE", 2)
        parts = [judged(scores, image_of, shortlists) for judged in (text_to_image_ranks, image_to_text_ranks)]
        monkeypatch.undo()
        for one, other in zip(whole, parts, strict=True):
            assert np.array_equal(one, other)


def test_what_no_shortlist_holds_stands_last() -> None:
    scores = torch.tensor([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [1.0, 3.0, 2.0]])
    stage_one = torch.tensor([[0.0, 2.0, 1.0], [0.0, 2.0, 1.0], [0.0, 2.0, 1.0]])
    ranks = text_to_image_ranks(scores, torch.tensor([0, 1, 2]), Shortlists(stage_one, 2))
    assert ranks.tolist() == [2, 1, 1]


def test_the_best_are_placed_by_stage_one_and_ties_count_against() -> None:
    scores = torch.tensor([[5.0, 4.0, 3.0, float("nan")]])
    assert stage_one_ranks_of_best(scores, torch.tensor([[1.0, 2.0, 9.0, 2.0]]), best=2).tolist() == [[3, 2]]
    assert stage_one_ranks_of_best(scores, torch.zeros(1, 4)).tolist() == [[3] * 4]


def test_what_stage_one_gives_no_number_is_on_no_shortlist() -> None:
    nan = float("nan")
    scores = torch.eye(2, 3)
    stage_one = torch.tensor([[nan, 1.0, 2.0], [nan, 1.0, nan]])
    for length in (1, 2, 3):
        ranks = text_to_image_ranks(scores, torch.tensor([0, 1]), Shortlists(stage_one, length))
        assert ranks.tolist() == [2, 0]
    assert stage_one_ranks_of_best(scores, stage_one, best=1).tolist() == [[2], [0]]
    assert stage_one_ranks_of_best(scores, torch.full_like(scores, nan), best=2).tolist() == [[2, 2]] * 2


def test_an_infinite_score_is_no_number_but_counts() -> None:
    scores = torch.tensor([[torch.inf, 3e38], [-torch.inf, -3.4e38]])
    assert text_to_image_ranks(scores, torch.tensor([1, 1])).tolist() == [1, 0]


def test_recalls_equal_ir_measures() -> None:
    ir_measures = pytest.importorskip("ir_measures", reason="what it computes by is built for x86-64 alone")
    scores = torch.randn(100, 20, generator=torch.Generator().manual_seed(5))
    image_of = torch.arange(20).repeat_interleave(5)
    measures = {f"r{k}": ir_measures.Success @ k for k in (1, 5, 10)}
    right = [(f"t{q}", f"i{k}") for q, k in enumerate(image_of.tolist())]
    scored = [(f"t{q}", f"i{k}", scores[q, k].item()) for q in range(100) for k in range(20)]
    for ranks, qrels, run in (
        (text_to_image_ranks, right, scored),
        (image_to_text_ranks, [(i, t) for t, i in right], [(i, t, score) for t, i, score in scored]),
    ):
        theirs = ir_measures.calc_aggregate(
            list(measures.values()),
            [ir_measures.Qrel(query, answer, 1) for query, answer in qrels],
            [ir_measures.ScoredDoc(query, answer, score) for query, answer, score in run],
        )
        ours = Recalls.of(ranks(scores, image_of)).as_dict()
        for name, measure in measures.items():
            assert ours[name] == pytest.approx(100 * theirs[measure])
