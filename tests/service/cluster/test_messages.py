"""Sentences that are sent to shards come out as they went in."""

import numpy as np
import pytest
import torch

from models.matching.encoded import EncodedTexts
from service.cluster.messages import SentTexts


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sentences_are_received_as_they_were_sent(dtype: torch.dtype) -> None:
    texts = EncodedTexts(
        torch.randn(2, 3, 4, dtype=dtype),
        torch.rand(2, 3) > 0.5,
        torch.randn(2, dtype=dtype),
        torch.tensor([True, False]),
    )
    sent = SentTexts.of(texts)
    for array in sent.arrays.values():
        array.flags.writeable = False  # as those are that Ray hands out
    for name, tensor in sent.received().tensors().items():
        expected = texts.tensors()[name]
        torch.testing.assert_close(tensor, expected.float() if expected.is_floating_point() else expected)
        assert not np.shares_memory(tensor.numpy(), sent.arrays[name])
