"""Typical sentences and pictures: how they are made of many vectors, and how they are stored."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.matching.hubness_banks import HubnessBanks, VectorBank, spherical_k_means, typical_parts
from models.rerankers.attention import l2_normalise


def test_centroids_are_the_means_of_their_groups() -> None:
    """Three bundles of directions: from some start a centroid ends in each."""
    generator = torch.Generator().manual_seed(0)
    middles = torch.eye(3, 8)
    vectors = l2_normalise(middles.repeat_interleave(50, 0) + 0.1 * torch.randn(150, 8, generator=generator))
    for seed in range(5):
        centroids = spherical_k_means(vectors, 3, seed)
        nearest = (vectors @ centroids.T).argmax(1)
        if len({*nearest.tolist()}) == 3 and (centroids @ middles.T).max(0).values.min() > 0.9:
            break
    else:
        pytest.fail("no start found all three")
    for group in range(3):
        torch.testing.assert_close(centroids[group], vectors[nearest == group].mean(0), atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="there are 150"):
        spherical_k_means(vectors, 151)


@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 9))
def test_a_quantised_bank_is_near_its_vectors_and_its_file_holds_it_exactly(seed: int, parts: int, width: int) -> None:
    vectors = 3 * torch.randn(6, parts, width, generator=torch.Generator().manual_seed(seed))
    bank = VectorBank.quantise(vectors)
    dequantised = bank.dequantise()
    assert ((dequantised - vectors).abs() <= vectors.abs().amax(2, keepdim=True) / 253).all()
    torch.testing.assert_close(VectorBank.quantise(dequantised).dequantise(), dequantised)  # once is enough
    assert torch.equal(VectorBank.from_tensors(bank.tensors()).dequantise(), dequantised)
    assert bank.tensors()["bank"].ndim == (2 if parts == 1 else 3)  # as files of before, which have one vector
    with pytest.raises(ValueError, match="units missing"):
        VectorBank.from_tensors({"bank": bank.integers})


def test_the_parts_of_groups_are_centroids_of_their_own_vectors() -> None:
    generator = torch.Generator().manual_seed(0)
    group_of = torch.tensor([0, 2, 0, 1, 0, 0, 2, 2])
    vectors = torch.randn(8, 5, generator=generator)
    found = typical_parts(vectors, group_of, 3, 1)
    for group in range(3):
        torch.testing.assert_close(found[group, 0], vectors[group_of == group].mean(0))
    each = typical_parts(vectors, group_of, 3, 3)
    assert each.shape == (3, 3, 5)
    torch.testing.assert_close(each[1], vectors[3].expand(3, 5))  # one vector stands for all three
    assert {tuple(one.tolist()) for one in each[2]} == {tuple(vectors[n].tolist()) for n in (1, 6, 7)}
    with pytest.raises(ValueError, match="group 3 of a bank is empty"):
        typical_parts(vectors, group_of, 4, 1)


def test_the_banks_of_sentences_and_pictures_share_a_file() -> None:
    sentences, typical = (VectorBank.quantise(torch.randn(count, 1, 4)) for count in (3, 5))
    assert [*HubnessBanks(sentences).tensors()] == ["bank", "units"]
    both = HubnessBanks(sentences, typical).tensors()
    assert [*both] == ["bank", "units", "picture_bank", "picture_units"]
    again = HubnessBanks.from_tensors(both)
    assert again.pictures is not None
    assert torch.equal(again.sentences.dequantise(), sentences.dequantise())
    assert torch.equal(again.pictures.dequantise(), typical.dequantise())
    assert HubnessBanks.from_tensors(sentences.tensors()).pictures is None
    with pytest.raises(ValueError, match="units missing"):
        HubnessBanks.from_tensors({name: tensor for name, tensor in both.items() if name != "picture_units"})
