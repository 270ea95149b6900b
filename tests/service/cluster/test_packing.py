"""Sentences that are sent to shards come out of their bytes as they went in."""

import pytest
import torch

from models.matching.matcher import EncodedTexts
from service.cluster.packing import PackedTexts


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_sentences_come_back_as_they_were(dtype: torch.dtype) -> None:
    many = EncodedTexts(torch.randn(5, 3, 4, dtype=dtype), torch.rand(5, 3) > 0.5, torch.randn(5, dtype=dtype))
    for texts in (many, many.with_tensors({name: tensor[1:2] for name, tensor in many.tensors().items()})):
        found = PackedTexts.of(texts).unpacked()
        for name, tensor in texts.tensors().items():
            torch.testing.assert_close(found.tensors()[name], tensor, atol=0, rtol=0)


def test_a_row_of_many_travels_alone() -> None:
    many = EncodedTexts(torch.randn(100, 9, 300), torch.ones(100, 9, dtype=torch.bool), torch.zeros(100))
    row = many.with_tensors({name: tensor[7:8] for name, tensor in many.tensors().items()})
    assert len(PackedTexts.of(row).content) < 20_000
