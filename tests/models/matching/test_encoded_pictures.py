"""Encoded pictures: everything in a record speaks of the vectors that the record holds."""

import pytest
import torch

from models.batches import Regions
from tests.support.small_matchers import small_matcher


@pytest.mark.parametrize("name", ["scan-t2i-avg", "caan", "sman"])
def test_what_is_precomputed_comes_from_the_rounded_vectors(name: str) -> None:
    matcher = small_matcher(name)
    vectors = torch.randn(3, 4, matcher.feature_dim, generator=torch.Generator().manual_seed(2))
    regions = Regions(vectors, torch.ones(3, 4, dtype=torch.bool))
    projected = matcher.reranker.project(regions)
    rounded = Regions(projected.vectors.half().float(), projected.mask)
    assert not torch.equal(rounded.vectors, projected.vectors)
    expected = matcher.encode_projected(rounded).tensors()
    found = matcher.encode_regions(regions)[0].tensors()
    assert found.keys() == expected.keys()
    for field, tensor in found.items():
        assert torch.equal(tensor, expected[field]), field
