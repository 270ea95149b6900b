"""Ranks and recalls against a slow definition, and the decided cases."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models.metrics import Recalls, image_to_text_ranks, rsum, text_to_image_ranks

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
