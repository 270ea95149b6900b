"""The parts that models share: inner products come out the same in whichever order the operands are multiplied, and
lengths along whichever axis they are taken."""

import pytest
import torch

from models.batches import Words
from models.rerankers.attention import FEW_COLUMNS, inner_products, l2_norm, l2_normalise, similarities


@pytest.mark.parametrize("num", [1, 14, FEW_COLUMNS - 1, FEW_COLUMNS, 3 * FEW_COLUMNS])
@pytest.mark.parametrize(("num_pictures", "num_regions"), [(1, 1), (3, 5)])
def test_inner_products_do_not_depend_on_how_many_vectors_there_are(
    num: int, num_pictures: int, num_regions: int
) -> None:
    generator = torch.Generator().manual_seed(num)
    regions = torch.randn(num_pictures, num_regions, 7, generator=generator, dtype=torch.float64, requires_grad=True)
    vectors = torch.randn(num, 7, generator=generator, dtype=torch.float64, requires_grad=True)
    found = inner_products(regions, vectors)
    expected = torch.einsum("krd,nd->krn", regions, vectors)
    torch.testing.assert_close(found, expected)
    weights = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    gradients = [torch.autograd.grad((product * weights).sum(), [regions, vectors]) for product in (found, expected)]
    torch.testing.assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize("num_words", [4, FEW_COLUMNS])
def test_similarities_are_by_sentence_and_word(num_words: int) -> None:
    generator = torch.Generator().manual_seed(num_words)
    regions, vectors = torch.randn(3, 5, 7, generator=generator), torch.randn(2, num_words, 7, generator=generator)
    mask = torch.rand(2, num_words, generator=generator) < 0.7
    raw, padded = similarities(regions, Words(vectors, mask))
    torch.testing.assert_close(raw, torch.einsum("krd,qwd->krqw", regions, vectors) * mask)
    assert padded.equal(vectors * mask.unsqueeze(2))


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_lengths_do_not_depend_on_how_the_vectors_lie(dim: int) -> None:
    vectors = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for laid_out in (vectors, vectors.mT.contiguous().mT, vectors.permute(2, 0, 1).contiguous().permute(1, 2, 0)):
        torch.testing.assert_close(l2_norm(laid_out, dim), (vectors**2).sum(dim, keepdim=True) ** 0.5)


@pytest.mark.parametrize("dim", [1, 2])
def test_padding_has_length_zero_and_a_gradient_of_zero(dim: int) -> None:
    vectors = torch.zeros(2, 3, 4, requires_grad=True)
    l2_normalise(vectors, dim).sum().backward()  # type: ignore[no-untyped-call]
    assert vectors.grad is not None
    assert vectors.grad.isfinite().all()
    lengths = l2_norm(vectors, dim)
    assert (lengths < 1e-14).all()
    (gradient,) = torch.autograd.grad(lengths.sum(), vectors)
    assert not gradient.any()
