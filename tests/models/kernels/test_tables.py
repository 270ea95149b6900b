"""Many pictures with many sentences: the kernels attend to tables of products as PyTorch does."""

import copy
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.batches import Regions, Words
from models.kernels.forms import KernelForm
from models.kernels.library import KernelLibrary
from models.kernels.tables import ProductTables
from models.rerankers.base import Reranker
from models.rerankers.bfan import Bfan
from models.rerankers.blocks import score_in_blocks
from tests.models.kernels.test_equality import SCAN, TOLERANCE, near_a_tie
from tests.support.kernels import Stored, random_regions, random_words, small_reranker


@st.composite
def cases(draw: st.DrawFn) -> tuple[Regions, Words]:
    """Pictures of any size with padding anywhere, and sentences of different lengths."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**30)))
    width, padding = draw(st.integers(16, 200)), draw(st.sampled_from([0.0, 0.3, 0.9]))
    regions = random_regions(draw(st.integers(1, 9)), draw(st.integers(1, 50)), width, padding, generator)
    words = random_words(draw(st.integers(1, 9)), draw(st.integers(1, 40)), width, 0, generator)
    lengths = torch.randint(1, words.mask.shape[1] + 1, (len(words), 1), generator=generator)
    return regions, Words(words.vectors, torch.arange(words.mask.shape[1]) < lengths)


@torch.no_grad()
def check_equal(kernels: KernelLibrary, reranker: Reranker[Any], regions: Regions, words: Words) -> None:
    exact = copy.deepcopy(reranker).double()
    images = exact.precompute(regions.to(dtype=torch.float64))
    expected = exact.score(images, words.to(dtype=torch.float64))
    for blocks in ({}, {"image_block": 4, "text_block": 3}):
        found = score_in_blocks(reranker, reranker.precompute(regions), words, kernels=kernels, **blocks)
        torch.testing.assert_close(found.double(), expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


@pytest.mark.slow
@given(case=cases(), options=SCAN)
def test_scan_is_scored_as_by_pytorch(kernels: KernelLibrary, case: tuple[Regions, Words], options: Any) -> None:
    check_equal(kernels, small_reranker("scan-t2i-avg", case[0].vectors.shape[2], **options), *case)


@pytest.mark.slow
@given(case=cases(), focal=st.sampled_from(["prob", "equal"]), similarity=st.sampled_from(["clipped_l2norm", "cosine"]))
def test_bfan_is_scored_as_by_pytorch(
    kernels: KernelLibrary, case: tuple[Regions, Words], focal: str, similarity: str
) -> None:
    regions, words = case
    reranker = small_reranker(f"bfan-{focal}", regions.vectors.shape[2], similarity=similarity)
    assert isinstance(reranker, Bfan)
    hypothesis.assume(not near_a_tie(reranker, Stored(records={}, rows=reranker.precompute(regions)), words))
    check_equal(kernels, reranker, regions, words)


@pytest.mark.parametrize("name", ["scan-t2i-avg", "scan-i2t-lse", "bfan-prob"])
@torch.no_grad()
def test_what_is_not_finite_stays_with_its_picture(kernels: KernelLibrary, name: str) -> None:
    generator = torch.Generator().manual_seed(3)
    regions, words = random_regions(40, 36, 64, 0, generator), random_words(5, 12, 64, 0, generator)
    reranker = small_reranker(name, 64)
    sound = score_in_blocks(reranker, reranker.precompute(regions), words, kernels=kernels)
    regions.vectors[7, 3, 1] = torch.nan
    found = score_in_blocks(reranker, reranker.precompute(regions), words, kernels=kernels)
    others = torch.arange(40) != 7
    assert found[:, 7].isnan().all()
    assert torch.equal(found[:, others], sound[:, others])


class CountedKernels:
    """Kernels that count their calls."""

    def __init__(self, kernels: KernelLibrary) -> None:
        self.kernels, self.calls = kernels, 0

    def scores_of_tables(self, form: KernelForm, tables: ProductTables, threads: int = 1) -> torch.Tensor:
        self.calls += 1
        return self.kernels.scores_of_tables(form, tables, threads)


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("scan-t2i-avg", torch.float32, True),
        ("bfan-equal", torch.float32, True),
        ("scan-t2i-avg", torch.float64, False),
        ("summax-t2i", torch.float32, False),
        ("caan", torch.float32, False),
        ("sman", torch.float32, False),
    ],
)
@torch.no_grad()
def test_pytorch_scores_what_the_kernels_do_not_know(
    kernels: KernelLibrary, name: str, dtype: torch.dtype, expected: bool
) -> None:
    generator = torch.Generator().manual_seed(4)
    regions, words = random_regions(5, 12, 64, 0.2, generator), random_words(4, 9, 64, 0, generator)
    reranker = small_reranker(name, 64).to(dtype)
    images, words = reranker.precompute(regions.to(dtype=dtype)), words.to(dtype=dtype)
    counted = CountedKernels(kernels)
    found = score_in_blocks(reranker, images, words, kernels=counted)
    assert found.dtype == dtype
    assert (counted.calls > 0) == expected
    torch.testing.assert_close(found, score_in_blocks(reranker, images, words), rtol=TOLERANCE, atol=TOLERANCE)


def tables_of(pictures: int = 40, **changed: torch.Tensor) -> ProductTables:
    parts = {
        "products": torch.randn(pictures, 6, 3, 5, generator=torch.Generator().manual_seed(5)),
        "gram": torch.eye(6).expand(pictures, 6, 6),
        "region_lengths": torch.ones(pictures, 6),
        "region_mask": torch.ones(pictures, 6, dtype=torch.bool),
        "word_gram": torch.eye(5).expand(3, 5, 5),
        "word_lengths": torch.ones(3, 5),
        "word_counts": torch.tensor([5, 1, 3], dtype=torch.int32),
    }
    tables = ProductTables(**parts)
    vars(tables).update(changed)  # past the checks of types, which only tests make
    return tables


FORM = small_reranker("scan-t2i-avg", 16).kernel_form
assert isinstance(FORM, KernelForm)


def test_the_number_of_threads_changes_no_score(kernels: KernelLibrary) -> None:
    assert isinstance(FORM, KernelForm)
    alone = kernels.scores_of_tables(FORM, tables_of())
    assert torch.equal(kernels.scores_of_tables(FORM, tables_of(), threads=3), alone)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"gram": torch.zeros(40, 6, 5)}, "must be torch.float32 \\(40, 6, 6\\)"),
        ({"products": torch.zeros(40, 6, 3, 5, dtype=torch.float64)}, "not torch.float64"),
        ({"word_counts": torch.tensor([5, 6, 3], dtype=torch.int32)}, "up to 5 words, not 6"),
        ({"word_counts": torch.tensor([5, -1, 3], dtype=torch.int32)}, "up to 5 words"),
        ({"region_mask": torch.ones(40, 6)}, "must be torch.bool"),
    ],
)
def test_tables_that_do_not_fit_are_refused(kernels: KernelLibrary, changed: dict[str, Any], told: str) -> None:
    assert isinstance(FORM, KernelForm)
    with pytest.raises(ValueError, match=told):
        kernels.scores_of_tables(FORM, tables_of(**changed))


def test_a_form_without_attention_is_refused(kernels: KernelLibrary) -> None:
    form = small_reranker("summax-t2i", 16).kernel_form
    assert isinstance(form, KernelForm)
    with pytest.raises(ValueError, match="attend"):
        kernels.scores_of_tables(form, tables_of())
