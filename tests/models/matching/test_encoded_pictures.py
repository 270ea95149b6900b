"""Encoded pictures: everything in a record speaks of the vectors that the record holds."""

import numpy as np
import pytest
import torch

from models.batches import Regions
from models.matching.encoded import HalfPrecisionOverflow, stored_arrays, to_half
from models.matching.ensemble import build_ensemble
from tests.support.small_matchers import small_matcher


def test_what_a_matcher_does_not_read_is_said_in_words() -> None:
    matcher = small_matcher("scan-t2i-avg")
    regions = Regions(torch.zeros(3, 4, matcher.feature_dim + 1), torch.ones(3, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="scan-t2i-avg reads features of 16 numbers, these have 17"):
        matcher.encode_regions(regions)
    with pytest.raises(TypeError, match=r"sentences come as a list: give \[sentence\]"):
        matcher.encode_sentences("red")
    for encode in (matcher.encode_sentences, build_ensemble([matcher, matcher]).encode_words):
        with pytest.raises(ValueError, match="there is no sentence to encode: give one at least"):
            encode([])


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


def test_a_number_that_half_precision_has_no_room_for_is_refused_by_name() -> None:
    kept = torch.tensor([65504.0, -65504.0, torch.inf, -torch.inf, 1e-9])
    assert to_half(kept, "gram").tolist() == [65504.0, -65504.0, torch.inf, -torch.inf, 0.0]
    for number in (65520.0, -1e9):
        with pytest.raises(
            HalfPrecisionOverflow, match=r"gram of a picture hold .*ends at 65504: use a model with vectors of unit"
        ):
            to_half(torch.tensor([1.0, number]), "gram")


@pytest.mark.parametrize("name", ["scan-t2i-avg", "scan-i2t-lse", "bfan-equal", "camp-released"])
def test_products_of_long_vectors_are_stored_in_single_precision(name: str) -> None:
    long, unit = (small_matcher(name, unit_regions=is_unit) for is_unit in (False, True))
    assert unit.wide_fields == ()
    assert build_ensemble([unit, long]).wide_fields == tuple(f"{field}_1" for field in long.wide_fields)
    assert not long.has_kernel
    drawn = torch.randn(3, 4, long.feature_dim, generator=torch.Generator().manual_seed(2))
    regions = Regions(3000 * drawn, torch.ones(3, 4, dtype=torch.bool))
    images, _ = long.encode_regions(regions)
    with pytest.raises(HalfPrecisionOverflow, match="gram"):
        stored_arrays(images, ())
    records = stored_arrays(images, long.wide_fields)
    assert records["vectors"].dtype == np.float16
    texts, _ = long.encode_sentences(["red blue"])
    torch.testing.assert_close(long.score(long.images_from(records), texts), long.score(images, texts))
    with pytest.raises(HalfPrecisionOverflow, match="vectors"):
        long.encode_regions(Regions(1e6 * drawn, regions.mask))
