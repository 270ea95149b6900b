"""Matrices in a few bits: what comes back, how far it is from what was stored, and how little room it takes."""

import pytest
import torch

from models.quantised_rows import (
    PLANES,
    SCALE,
    QuantisedEmbedding,
    dequantise_all,
    dequantise_rows,
    quantise_matrices,
    quantise_rows,
)


@pytest.mark.parametrize("bits", [2, 4, 7, 8])
def test_whole_multiples_of_a_rows_scale_come_back_exactly(bits: int) -> None:
    largest = 2 ** (bits - 1) - 1
    whole = torch.randint(-largest, largest + 1, (5, 24))
    whole[:, 0] = largest
    matrix = whole * torch.tensor([0.5, 0.25, 1, 2, 4])[:, None]
    stored = quantise_rows(matrix, bits)
    assert torch.equal(dequantise_rows(stored[PLANES], stored[SCALE]), matrix)
    assert stored[PLANES].numel() == bits * matrix.numel() // 8


@pytest.mark.parametrize(("bits", "most"), [(4, 0.13), (7, 0.02), (8, 0.01)])
def test_the_error_is_that_of_the_bits(bits: int, most: float) -> None:
    matrix = torch.randn(50, 384)
    stored = quantise_rows(matrix, bits)
    error = (dequantise_rows(stored[PLANES], stored[SCALE]) - matrix).norm() / matrix.norm()
    assert most / 4 < error < most


def test_rows_of_zeros_stay_zeros() -> None:
    stored = quantise_rows(torch.zeros(2, 8), 4)
    assert torch.equal(dequantise_rows(stored[PLANES], stored[SCALE]), torch.zeros(2, 8))


def test_tensors_that_are_stored_as_they_are_stay_so() -> None:
    bias, matrix = torch.randn(3).half(), torch.randn(2, 8)
    stored = {"bias": bias} | {f"matrix{ending}": part for ending, part in quantise_rows(matrix, 8).items()}
    read = dequantise_all(stored)
    assert set(read) == {"bias", "matrix"}
    assert torch.equal(read["bias"], bias.float())
    torch.testing.assert_close(read["matrix"], matrix, atol=0.05, rtol=0)


def test_matrices_of_floats_alone_are_put_into_few_bits() -> None:
    state = {
        "matrix": torch.randn(2, 8),
        "odd": torch.randn(2, 9),
        "bias": torch.randn(8),
        "ids": torch.ones(2, 8).int(),
    }
    stored = quantise_matrices(state, 8)
    assert set(stored) == {"matrix.planes", "matrix.scale", "odd", "bias", "ids"}
    assert all(torch.equal(dequantise_all(stored)[name], state[name]) for name in ("odd", "bias", "ids"))


def test_rows_that_do_not_fill_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 8"):
        quantise_rows(torch.zeros(2, 9), 4)


def test_an_embedding_of_quantised_rows_is_that_of_the_matrix() -> None:
    stored = quantise_rows(torch.randn(50, 16, generator=torch.Generator().manual_seed(3)), bits=4)
    planes, scale = stored[PLANES], stored[SCALE]
    dense = torch.nn.Embedding.from_pretrained(dequantise_rows(planes, scale))  # type: ignore[no-untyped-call]
    for ids in (torch.tensor([[0, 49, 7], [7, 7, 1]]), torch.tensor([3]), torch.zeros(2, 0, dtype=torch.int64)):
        assert torch.equal(QuantisedEmbedding(planes, scale)(ids), dense(ids))
