"""Packed layers compute what they replace."""

import torch
from torch import nn

from models.text.packed_linear import pack_linear_layers


@torch.no_grad()
def test_packed_layers_compute_the_same_for_any_number_of_rows() -> None:
    network = nn.Sequential(nn.Linear(24, 40), nn.Sequential(nn.GELU(), nn.Linear(40, 8))).eval()
    inputs = [torch.randn(*rows, 24) for rows in ((1, 1), (1, 14), (3, 5), (64, 30))]
    expected = [network(vectors) for vectors in inputs]
    pack_linear_layers(network)
    assert not list(network.parameters()) or isinstance(network[0], nn.Linear)  # where oneDNN is missing
    for vectors, before in zip(inputs, expected, strict=True):
        torch.testing.assert_close(network(vectors), before, atol=1e-5, rtol=0)
