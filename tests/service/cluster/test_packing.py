"""What is sent to many shards comes out of its bytes as it went in."""

import torch

from models.matching.matcher import EncodedTexts
from service.cluster.packing import Packed


def test_tensors_come_back_as_they_were() -> None:
    texts = EncodedTexts(torch.randn(1, 3, 4, dtype=torch.float64), torch.tensor([[True, True, False]]), torch.ones(1))
    found = Packed((texts, ["a", "dog"])).unpacked()
    assert found[1] == ["a", "dog"]
    for name, tensor in texts.tensors().items():
        torch.testing.assert_close(found[0].tensors()[name], tensor, atol=0, rtol=0)


def test_a_part_of_a_larger_tensor_travels_alone() -> None:
    large = torch.zeros(1000, 1000)
    assert len(Packed(large[:1])._content) < 10_000
    assert not Packed(large[:1]).unpacked().requires_grad


def test_a_kind_of_number_that_numpy_lacks_travels_too() -> None:
    half = torch.tensor([1.0, -2.5], dtype=torch.bfloat16)
    torch.testing.assert_close(Packed(half).unpacked(), half, atol=0, rtol=0)
