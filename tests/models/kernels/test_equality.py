"""The kernels score as PyTorch does: every model and option that they know, all sizes, padding, NaN and infinities."""

from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.batches import Regions, Words
from models.kernels.library import KernelLibrary
from models.rerankers.base import Reranker
from models.rerankers.bfan import TIE_TOLERANCE, Bfan
from models.rerankers.registry import RERANKERS
from tests.support.kernels import (
    Stored,
    kernel_scores,
    random_regions,
    random_words,
    scores_in,
    small_reranker,
)

NORMALISATIONS = ("softmax", "l2norm", "clipped_l2norm", "clipped", "no_norm")
POOLINGS = ("LogSumExp", "Mean", "Max", "Sum")
SCAN = st.fixed_dictionaries(
    {
        "direction": st.sampled_from(["t2i", "i2t"]),
        "normalisation": st.sampled_from(NORMALISATIONS),
        "pooling": st.sampled_from(POOLINGS),
        "lambda_softmax": st.floats(0.5, 40),  # beyond 30 the whole softmax is computed
        "lambda_lse": st.floats(1, 20),
    }
)
TOLERANCE = 1e-5


WIDTHS = st.sampled_from([16, 48, 256, 272])


@st.composite
def cases(draw: st.DrawFn, widths: st.SearchStrategy[int] = st.integers(16, 600)) -> tuple[Regions, Words]:  # noqa: B008
    """Pictures and sentences of any size, on both sides of the kernels' blocks of rows, columns and numbers."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**30)))
    width, padding = draw(widths), draw(st.sampled_from([0.0, 0.3, 0.9]))
    regions = random_regions(draw(st.integers(1, 5)), draw(st.integers(1, 50)), width, padding, generator)
    return regions, random_words(draw(st.integers(1, 3)), draw(st.integers(1, 40)), width, padding, generator)


def drawn_weights(name: str, width: int, **options: Any) -> Reranker[Any]:
    """A model whose layers are drawn, the same for the same options."""
    torch.manual_seed(0)
    return small_reranker(name, width, **options)


def check_equal(kernels: KernelLibrary, reranker: Reranker[Any], regions: Regions, words: Words) -> None:
    stored = Stored.of(reranker, regions)
    exact = scores_in(torch.float64, reranker, stored, words)
    found = kernel_scores(kernels, reranker, stored, words)
    # Scores are up to as large as there are queries that are added up.
    torch.testing.assert_close(found, exact, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


@pytest.mark.slow
@given(case=cases(), options=SCAN)
def test_scan_is_scored_as_by_pytorch(kernels: KernelLibrary, case: tuple[Regions, Words], options: Any) -> None:
    regions, words = case
    check_equal(kernels, small_reranker("scan-t2i-avg", regions.vectors.shape[2], **options), regions, words)


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize(("num_regions", "num_words"), [(1, 1), (12, 16), (13, 17), (36, 33)])
def test_all_of_scans_options_at_the_edges_of_blocks(
    kernels: KernelLibrary, direction: str, normalisation: str, pooling: str, num_regions: int, num_words: int
) -> None:
    generator = torch.Generator().manual_seed(num_words)
    options = {"direction": direction, "normalisation": normalisation, "pooling": pooling}
    for width in (16, 256, 257, 1031):
        regions = random_regions(3, num_regions, width, 0, generator)
        words = random_words(2, num_words, width, 0, generator)
        check_equal(kernels, small_reranker("scan-t2i-avg", width, **options), regions, words)


@given(case=cases(), direction=st.sampled_from(["t2i", "i2t"]))
def test_sum_max_is_scored_as_by_pytorch(kernels: KernelLibrary, case: tuple[Regions, Words], direction: str) -> None:
    regions, words = case
    check_equal(kernels, small_reranker(f"summax-{direction}", regions.vectors.shape[2]), regions, words)


def near_a_tie(reranker: Bfan, stored: Stored, words: Words) -> bool:
    """Whether rounding decides a focal test, or whether all weights count as alike: no two implementations need agree
    then."""
    images = stored.rows.to(dtype=torch.float64).tensors()
    words = words.to(dtype=torch.float64)
    mask = images["mask"][:, :, None, None] & words.mask
    raw = torch.einsum("krd,qwd->krqw", images["vectors"], words.vectors).masked_fill(~mask, 0)
    lengths = images["vectors"].norm(dim=2)[:, :, None, None] * words.vectors.norm(dim=2)
    real = images["mask"][:, :, None, None], words.mask[None, None]
    for logits, dim in zip(reranker._logits(raw, lengths, *real), (1, 3), strict=True):
        weights = logits.exp() * mask
        others = weights.sqrt() if reranker.config.focal == "prob" else mask.double()
        mean = (weights * others).sum(dim, keepdim=True) / others.sum(dim, keepdim=True).clamp_min(1e-30)
        above = weights / mean.clamp_min(1e-30) - 1
        largest = above.masked_fill(~mask, -1).amax(dim, keepdim=True)
        near_alike = (largest - TIE_TOLERANCE).abs() < 6e-6
        near_mean = (above.abs() < 2e-5) & (largest > TIE_TOLERANCE)
        if ((near_alike | near_mean) & mask).any():
            return True
    return False


@pytest.mark.slow
@given(case=cases(), focal=st.sampled_from(["prob", "equal"]), similarity=st.sampled_from(["clipped_l2norm", "cosine"]))
def test_bfan_is_scored_as_by_pytorch(
    kernels: KernelLibrary, case: tuple[Regions, Words], focal: str, similarity: str
) -> None:
    regions, words = case
    reranker = small_reranker(f"bfan-{focal}", regions.vectors.shape[2], similarity=similarity)
    assert isinstance(reranker, Bfan)
    hypothesis.assume(not near_a_tie(reranker, Stored.of(reranker, regions), words))
    check_equal(kernels, reranker, regions, words)


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("focal", ["prob", "equal"])
def test_a_picture_of_one_region_is_scored_as_by_pytorch(kernels: KernelLibrary, focal: str, padding: int) -> None:
    """No pair is left out: rounding decides none of these."""
    generator = torch.Generator().manual_seed(padding)
    regions = random_regions(100, 1 + padding, 384, 0, generator)
    regions.mask[:, 1:] = False
    words = random_words(20, 12, 384, 0.2, generator)
    check_equal(kernels, small_reranker(f"bfan-{focal}", 384), regions, words)


@given(case=cases(), intra_modal=st.sampled_from(["SA", "FA"]), slope=st.sampled_from([0.0, 0.1]), z=WIDTHS)
def test_caan_is_scored_as_by_pytorch(
    kernels: KernelLibrary, case: tuple[Regions, Words], intra_modal: str, slope: float, z: int
) -> None:
    regions, words = case
    options = {"intra_modal": intra_modal, "slope": slope, "attention_width": z}
    check_equal(kernels, drawn_weights("caan", regions.vectors.shape[2], **options), regions, words)


@given(
    case=cases(WIDTHS),
    product=st.sampled_from(["inside", "outside"]),
    similarity=st.sampled_from(["sum", "concatenation"]),
    divides=st.booleans(),
)
def test_sman_is_scored_as_by_pytorch(
    kernels: KernelLibrary, case: tuple[Regions, Words], product: str, similarity: str, divides: bool
) -> None:
    regions, words = case
    options = {"text_product": product, "similarity": similarity, "divide_by_regions": divides}
    check_equal(kernels, drawn_weights("sman", regions.vectors.shape[2], **options), regions, words)


@pytest.mark.parametrize(("name", "options"), [("caan", {"attention_width": 24}), ("sman", {})])
def test_widths_beside_the_kernels_lanes_are_left_to_pytorch(name: str, options: dict[str, Any]) -> None:
    assert small_reranker(name, 24, **options).kernel_form is None
    assert small_reranker(name, 32).kernel_form is not None


KNOWN = [
    ("caan", {}),
    ("caan", {"intra_modal": "FA"}),
    ("sman", {}),
    ("sman", {"text_product": "outside", "similarity": "concatenation"}),
    ("scan-t2i-lse", {}),
    ("scan-t2i-avg", {}),
    ("scan-t2i-avg", {"normalisation": "no_norm"}),
    ("scan-i2t-lse", {}),
    ("scan-i2t-avg", {"normalisation": "softmax"}),
    ("bfan-prob", {}),
    ("bfan-equal", {"similarity": "cosine"}),
    ("summax-t2i", {}),
    ("summax-i2t", {}),
]


@pytest.mark.parametrize(
    "name", [name for name in sorted(RERANKERS) if small_reranker(name, 48).kernel_form is not None]
)
def test_a_registered_model_with_a_kernel_form_is_scored_as_by_pytorch(kernels: KernelLibrary, name: str) -> None:
    generator = torch.Generator().manual_seed(6)
    regions, words = random_regions(3, 9, 48, 0.2, generator), random_words(2, 5, 48, 0.2, generator)
    check_equal(kernels, drawn_weights(name, 48), regions, words)


@pytest.mark.parametrize(("name", "options"), KNOWN)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 60000.0])
def test_a_number_that_is_none_shows_in_its_pictures_score_alone(
    kernels: KernelLibrary, name: str, options: dict[str, Any], value: float
) -> None:
    generator = torch.Generator().manual_seed(3)
    regions = random_regions(3, 14, 48, 0.2, generator)
    regions.mask[:, 2] = True
    regions.vectors[1, 2, 7] = value
    words = random_words(2, 5, 48, 0.2, generator)
    reranker = drawn_weights(name, 48, **options)
    stored = Stored.of(reranker, regions)
    expected = scores_in(torch.float32, reranker, stored, words)
    assert expected[:, [0, 2]].isfinite().all()
    found = kernel_scores(kernels, reranker, stored, words)
    torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


@pytest.mark.parametrize(("name", "options"), KNOWN)
def test_a_word_that_is_no_number_makes_all_scores_of_its_sentence_nan(
    kernels: KernelLibrary, name: str, options: dict[str, Any]
) -> None:
    generator = torch.Generator().manual_seed(4)
    words = random_words(2, 5, 48, 0, generator)
    words.vectors[1, 3, 0] = float("nan")
    reranker = drawn_weights(name, 48, **options)
    found = kernel_scores(kernels, reranker, Stored.of(reranker, random_regions(3, 9, 48, 0, generator)), words)
    assert found[0].isfinite().all()
    assert found[1].isnan().all()


@pytest.mark.parametrize(("name", "options"), KNOWN)
def test_a_picture_without_regions_and_a_sentence_without_words_score_as_by_pytorch(
    kernels: KernelLibrary, name: str, options: dict[str, Any]
) -> None:
    generator = torch.Generator().manual_seed(5)
    regions, words = random_regions(3, 9, 48, 0.2, generator), random_words(2, 5, 48, 0.2, generator)
    regions.mask[1] = False
    words.mask[1] = False
    check_equal(kernels, drawn_weights(name, 48, **options), regions, words)


@pytest.mark.parametrize("name", ["camp", "camp-released", "camp-released-attention"])
def test_the_other_models_are_left_to_pytorch(name: str) -> None:
    assert small_reranker(name, 16).kernel_form is None
