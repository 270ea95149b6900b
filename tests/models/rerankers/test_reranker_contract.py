"""The contract of every registered model, whatever it computes."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.batches import Regions, Rows, Tokens, Words
from models.matching.checkpoint import new_matcher
from models.matching.single_matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.base import Explanation, Reranker, score_pairs
from models.rerankers.blocks import score_in_blocks
from models.rerankers.encoders import EncoderConfig
from models.rerankers.registry import RERANKERS, UnknownModel, build
from models.text.vocabulary import SPECIALS, Vocabulary
from tests.support.encoded_images import encode_images

WORDS = ("a", "dog", "runs", "on", "grass", "two", "men", "play", "ball", "red", "blue", "sky")
ENCODERS = EncoderConfig(num_words=16, feature_dim=12, word_dim=10, width=24)

# The fields of stored records. Views compare names and order: with others, every view would have to be built anew.
RECORD_FIELDS = {
    "scan": ["vectors", "gram", "mask"],
    "summax": ["vectors", "mask"],
    "bfan": ["vectors", "gram", "mask"],
    "caan": ["vectors", "intra", "inter", "mask"],
    "camp": ["vectors", "mask"],
    "camp-released": ["vectors", "gram", "affinity", "own", "told", "mask"],
    "camp-released-attention": ["vectors", "gram", "affinity", "mask"],
    "sman": ["keys", "values", "gate", "whole", "own", "mask"],
}

# Whose scores are no sums over pairs of words and regions.
WITHOUT_SHARES = {"scan-t2i-lse", "scan-i2t-lse", "camp", "camp-released", "sman"}

pytestmark = pytest.mark.parametrize("name", sorted(RERANKERS))


def model(name: str) -> Reranker[Any]:
    torch.manual_seed(1)
    return build(name, ENCODERS).double().eval()


def pictures(num: int = 5, regions: int = 6) -> Regions:
    generator = torch.Generator().manual_seed(2)
    vectors = torch.randn(num, regions, 12, generator=generator, dtype=torch.float64)
    return Regions(vectors.abs(), torch.ones(num, regions, dtype=torch.bool))


def sentences(*lengths: int) -> Tokens:
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(1, 16, (len(lengths), max(lengths)), generator=generator)
    return Tokens(ids, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])


def encode(reranker: Reranker[Any], regions: Regions, tokens: Tokens) -> tuple[Rows, Words]:
    return encode_images(reranker, regions), reranker.encode_texts(tokens)


@torch.no_grad()
def test_every_sentence_and_picture_have_a_score(name: str) -> None:
    images, words = encode(model(name), pictures(), sentences(3, 7, 5))
    scores = model(name).score(images, words)
    assert scores.shape == (3, 5)
    assert scores.isfinite().all()
    assert scores.flatten().unique().numel() == 15  # type: ignore[no-untyped-call]  # it looks at both sides


@torch.no_grad()
def test_a_pair_scores_the_same_alone_as_in_company(name: str) -> None:
    reranker = model(name)
    images, words = encode(reranker, pictures(), sentences(3, 7, 5))
    scores = reranker.score(images, words)
    for q, length in enumerate((3, 7, 5)):
        for k in range(5):
            alone = Words(words.vectors[q : q + 1, :length], words.mask[q : q + 1, :length])
            torch.testing.assert_close(reranker.score(images[k : k + 1], alone)[0, 0], scores[q, k])


@torch.no_grad()
def test_junk_in_padding_changes_nothing(name: str) -> None:
    reranker, regions, tokens = model(name), pictures(), sentences(3, 7, 5)
    images, words = encode(reranker, regions, tokens)
    expected = reranker.score(images, words)
    junk = torch.full((5, 2, 12), 1e6, dtype=torch.float64)
    padded = Regions(torch.cat([regions.vectors, junk], 1), torch.arange(8).expand(5, 8) < 6)
    longer = torch.nn.functional.pad(words.vectors, (0, 0, 0, 2)).masked_fill(
        ~torch.nn.functional.pad(words.mask, (0, 2)).unsqueeze(-1), 1e6
    )
    dirty = Words(longer, torch.nn.functional.pad(words.mask, (0, 2)))
    torch.testing.assert_close(reranker.score(encode_images(reranker, padded), dirty), expected)


@torch.no_grad()
def test_pictures_may_have_different_numbers_of_regions(name: str) -> None:
    reranker, regions, tokens = model(name), pictures(), sentences(4)
    mask = torch.arange(6) < torch.tensor([1, 2, 4, 6, 3])[:, None]
    scores = reranker.score(*encode(reranker, Regions(regions.vectors, mask), tokens))
    for k, count in enumerate((1, 2, 4, 6, 3)):
        alone = Regions(regions.vectors[k : k + 1, :count], mask[k : k + 1, :count])
        torch.testing.assert_close(reranker.score(*encode(reranker, alone, tokens))[0, 0], scores[0, k])


@torch.no_grad()
@pytest.mark.parametrize(("num", "regions", "words"), [(1, 1, 1), (1, 6, 3), (4, 1, 2), (3, 5, 1)])
def test_single_pictures_regions_and_words_are_scored(name: str, num: int, regions: int, words: int) -> None:
    reranker = model(name)
    scores = reranker.score(*encode(reranker, pictures(num, regions), sentences(words)))
    assert scores.shape == (1, num)
    assert scores.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize(("num_images", "num_texts"), [(0, 3), (5, 0), (0, 0)])
def test_no_pictures_or_no_sentences_have_no_scores(name: str, num_images: int, num_texts: int) -> None:
    reranker = model(name)
    images, words = encode(reranker, pictures(), sentences(3, 7, 5))
    images, words = images[:num_images], words[:num_texts]
    assert reranker.score(images, words).shape == (num_texts, num_images)
    assert score_in_blocks(reranker, images, words).shape == (num_texts, num_images)
    explained = [part for part in vars(reranker.explain(images, words)).values() if isinstance(part, torch.Tensor)]
    assert explained
    assert all(part.shape[:2] == (num_texts, num_images) for part in explained)


@torch.no_grad()
def test_a_picture_without_regions_is_explained_by_zeros(name: str) -> None:
    reranker, regions, tokens = model(name), pictures(), sentences(3, 7, 5)
    mask = regions.mask.clone()
    mask[2] = False
    explanation = reranker.explain(*encode(reranker, Regions(regions.vectors, mask), tokens))
    for part in (explanation.attention, explanation.region_weights, explanation.shares):
        if part is not None:
            assert part.isfinite().all()
    if explanation.kind == "words attend regions":
        assert explanation.attention is not None
        assert not explanation.attention[:, 2].any()


@torch.no_grad()
def test_blocks_and_pairs_equal_the_whole(name: str) -> None:
    reranker = model(name)
    images, words = encode(reranker, pictures(), sentences(3, 7, 5, 2, 6))
    whole = reranker.score(images, words)
    blocks = score_in_blocks(reranker, images, words, image_block=2, text_block=2)
    torch.testing.assert_close(blocks.double(), whole, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(score_pairs(reranker, images, words), whole.diagonal())


def test_gradients_reach_every_weight_and_are_finite(name: str) -> None:
    reranker = model(name).train()
    regions, tokens = pictures(), sentences(3, 7, 5)
    mask = regions.mask.clone()
    mask[0, 3:] = False
    images, words = encode(reranker, Regions(regions.vectors, mask), tokens)
    scores = reranker.score(images, words)
    (scores * torch.randn_like(scores)).sum().backward()  # type: ignore[no-untyped-call]
    for weight, parameter in reranker.named_parameters():
        assert parameter.grad is not None, weight
        assert parameter.grad.isfinite().all(), weight


@torch.no_grad()
def test_contributions_add_up_to_the_score_and_attention_weights_to_one(name: str) -> None:
    reranker, tokens = model(name), sentences(3, 7)
    images, words = encode(reranker, pictures(), tokens)
    explanation: Explanation = reranker.explain(images, words)
    real = tokens.mask[:, None]
    if explanation.contributions is not None:
        assert not explanation.contributions.masked_select(~real.expand_as(explanation.contributions)).any()
        torch.testing.assert_close(explanation.contributions.sum(2), reranker.score(images, words))
    if explanation.kind == "words attend regions":
        assert explanation.attention is not None
        torch.testing.assert_close(explanation.attention.sum(3)[real.expand(2, 5, 7)], torch.ones(50).double())
    elif explanation.kind == "regions attend words":
        assert explanation.attention is not None
        torch.testing.assert_close(explanation.attention.sum(2), torch.ones(2, 5, 6).double())
    else:
        assert explanation.kind == "weights"
        assert explanation.attention is None
        assert explanation.word_weights is not None
        assert explanation.region_weights is not None
        torch.testing.assert_close(explanation.word_weights.sum(2), torch.ones(2, 5).double())
        torch.testing.assert_close(explanation.region_weights.sum(2), torch.ones(2, 5).double())


@cache
def small_model(name: str) -> Reranker[Any]:
    torch.manual_seed(1)
    return build(name, EncoderConfig(num_words=16, feature_dim=5, word_dim=4, width=6)).double().eval()


@settings(max_examples=20, deadline=None)
@given(
    regions=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    seed=st.integers(0, 2**32 - 1),
)
@torch.no_grad()
def test_shares_add_up_to_contributions_and_scores(
    name: str, regions: list[int], lengths: list[int], seed: int
) -> None:
    reranker, generator = small_model(name), torch.Generator().manual_seed(seed)
    real_regions = torch.arange(max(regions) + 1) < torch.tensor(regions)[:, None]
    real_words = torch.arange(max(lengths) + 1) < torch.tensor(lengths)[:, None]
    features = torch.randn(*real_regions.shape, 5, generator=generator, dtype=torch.float64)
    vectors = torch.randn(*real_words.shape, 6, generator=generator, dtype=torch.float64)
    images, words = encode_images(reranker, Regions(features, real_regions)), Words(vectors, real_words)
    explanation = reranker.explain(images, words)
    assert (explanation.shares is None) == (name in WITHOUT_SHARES), "WITHOUT_SHARES lists the models that have none"
    if explanation.shares is None:
        return
    assert explanation.contributions is not None
    assert explanation.shares.shape == (len(lengths), len(regions), max(lengths) + 1, max(regions) + 1)
    real = real_words[:, None, :, None] & real_regions[:, None]
    assert not explanation.shares.masked_select(~real).any()
    torch.testing.assert_close(explanation.shares.sum(3), explanation.contributions, atol=1e-12, rtol=1e-10)
    torch.testing.assert_close(explanation.shares.sum((2, 3)), reranker.score(images, words), atol=1e-12, rtol=1e-10)
    shift = torch.randn(len(lengths), len(regions), generator=generator, dtype=torch.float64)
    rescaled = explanation.rescaled(3.0, shift, real_words, real_regions)
    assert rescaled.contributions is not None
    assert rescaled.shares is not None
    assert not rescaled.shares.masked_select(~real).any()
    torch.testing.assert_close(rescaled.shares.sum(3), rescaled.contributions, atol=1e-12, rtol=1e-10)
    added = (rescaled.shares - 3 * explanation.shares)[real]
    even = (shift / torch.tensor(lengths)[:, None] / torch.tensor(regions))[:, :, None, None].expand_as(real)[real]
    torch.testing.assert_close(added, even)  # all pairs alike


def small_matcher(name: str) -> SingleMatcher:
    torch.manual_seed(1)
    vocabulary = Vocabulary((*SPECIALS, *WORDS))
    return new_matcher(name, ENCODERS, StageOneConfig(width=24, embed_dim=8), vocabulary, "digest").eval()


def test_a_stored_record_scores_like_the_picture_it_came_from(name: str) -> None:
    matcher = small_matcher(name)
    images, embeddings = matcher.encode_regions(pictures().to(dtype=torch.float32))
    assert embeddings.shape == (5, 8)
    arrays = {
        field: (tensor.half() if tensor.is_floating_point() else tensor).numpy()
        for field, tensor in images.tensors().items()
    }
    layout = matcher.image_layout(6, 12)
    assert {field: array.shape[1:] for field, array in arrays.items()} == layout
    texts, _ = matcher.encode_sentences(["a dog runs", "two men play ball"])
    stored = matcher.score(matcher.images_from(arrays), texts)
    torch.testing.assert_close(stored, matcher.score(images, texts), atol=5e-3, rtol=5e-3)


def record_fields(name: str) -> list[str]:
    """The fields of a model's stored records."""
    found = RECORD_FIELDS.get(name) or RECORD_FIELDS.get(name.partition("-")[0])
    assert found is not None, f"list the fields of {name}'s records in RECORD_FIELDS"
    return found


def test_records_have_the_fields_of_stored_views(name: str) -> None:
    assert list(small_matcher(name).image_layout(6, 12)) == record_fields(name)


def test_records_of_unit_vectors_keep_the_precision_of_stored_views(name: str) -> None:
    assert build(name, replace(ENCODERS, unit_regions=True)).wide_fields == ()
    products = tuple(field for field in record_fields(name) if field in ("gram", "affinity"))
    assert build(name, replace(ENCODERS, unit_regions=False)).wide_fields == products


def test_an_empty_caption_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="empty caption"):
        small_matcher(name).encode_sentences(["a dog", "  "])


def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownModel, match=name):
        build(name + "x", ENCODERS)


@pytest.mark.parametrize("zero", [(2, 3), (2,)], ids=["row", "picture"])
def test_gradients_of_rows_of_zeros_are_as_small_as_others(name: str, zero: tuple[int, ...]) -> None:
    reranker, whole, tokens = model(name).float(), pictures().vectors.float(), sentences(3, 7, 5)
    norms: list[float] = []
    for vectors in (whole.clone(), whole):
        if not norms:
            vectors[zero] = 0
        reranker.zero_grad()
        images, words = encode(reranker, Regions(vectors, pictures().mask), tokens)
        scores = reranker.score(images, words)
        with torch.no_grad():
            assert scores.equal(reranker.score(images, words))
        scores.square().sum().backward()  # type: ignore[no-untyped-call]
        gradients = [one.grad.norm() for one in reranker.parameters() if one.grad is not None]
        norms.append(float(torch.stack(gradients).norm()))
    assert norms[0] < 10 * max(norms[1], 1)
