"""The start of maps out of the space of a text encoder's states."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cosine_similarity

from models.batches import Regions, Words
from models.datasets.captioned_features import CaptionedFeatures
from models.matching.checkpoint import load_matcher
from models.matching.single_matcher import SingleMatcher
from models.rerankers.attention import masked_mean
from models.training.recipes import RECIPES, Recipe
from models.training.start import initial_matcher
from models.training.trainer import Training
from models.training.word_map import mean_states, principal_directions
from tests.support.small_bert import WIDTH, small_reader
from tests.support.small_trainings import NOUNS, small, synthetic


def aligned(num: int = 24) -> CaptionedFeatures:
    """Small vectors in the space of the small encoder's states, each with another as its concept."""
    data = synthetic(num)
    vectors = 0.02 * torch.randn(*data.features.shape[:2], 2 * WIDTH, generator=torch.Generator().manual_seed(4))
    return replace(data, features=vectors.numpy())


def recipe_of(model: str, word_map: str, width: int = 16) -> Recipe:
    changes = {"concept_dim": WIDTH, "width": width, "word_map": word_map, "starts_from": None}
    return small(RECIPES[f"{model}-flickr8k-aligned"], **changes)


def matcher_of(folder: Path, model: str, word_map: str, width: int = 16) -> SingleMatcher:
    torch.manual_seed(0)
    reader = small_reader(folder / "encoder", NOUNS)
    return initial_matcher(recipe_of(model, word_map, width), aligned(), None, reader).eval()


def test_principal_directions_lose_the_least() -> None:
    vectors = torch.randn(60, 12, generator=torch.Generator().manual_seed(1)) @ torch.diag(torch.arange(1.0, 13))
    vectors += 3
    directions = principal_directions(vectors, 5)
    torch.testing.assert_close(directions @ directions.T, torch.eye(5), atol=1e-5, rtol=0)
    lost = (vectors - vectors @ directions.T @ directions).square().sum()
    # Eckart and Young: what remains are the squares of the other singular values.
    torch.testing.assert_close(lost, torch.linalg.svdvals(vectors)[5:].square().sum(), rtol=1e-4, atol=0)


def test_a_mean_state_is_that_of_its_sentence_alone(tmp_path: Path) -> None:
    reader = small_reader(tmp_path, NOUNS)
    sentences = [" ".join(NOUNS[:count]) for count in (1, 5, 3)]
    for sentence, mean in zip(sentences, mean_states(reader, sentences), strict=True):
        torch.testing.assert_close(mean, reader.encode([sentence]).vectors[0].mean(0), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model", ["bfan-equal", "sman"])
def test_a_narrow_map_starts_at_the_captions_principal_directions(model: str, tmp_path: Path) -> None:
    matcher = matcher_of(tmp_path, model, "principal")
    sentences = [text for own in aligned().captions for text in own]
    expected = principal_directions(mean_states(small_reader(tmp_path / "again", NOUNS), sentences), 16)
    torch.testing.assert_close(matcher.reranker.get_parameter("sentence_encoder.fc.weight").detach(), expected)
    random = matcher_of(tmp_path / "random", model, "random").reranker.get_parameter("sentence_encoder.fc.weight")
    assert not torch.allclose(random, expected)


def test_a_map_as_wide_as_the_states_is_left_alone(tmp_path: Path) -> None:
    weights = [
        matcher_of(tmp_path / start, "bfan-equal", start, width=WIDTH).reranker.get_parameter(
            "sentence_encoder.fc.weight"
        )
        for start in ("principal", "random")
    ]
    assert torch.equal(*weights)


@pytest.mark.parametrize("word_map", ["principal", "random"])
@torch.no_grad()
def test_sman_starts_as_cosines_of_mean_regions_and_mean_words(word_map: str, tmp_path: Path) -> None:
    matcher, data = matcher_of(tmp_path, "sman", word_map), aligned()
    weight = matcher.reranker.get_parameter("sentence_encoder.fc.weight")
    projected = matcher.reranker.project(data.regions(range(6)))
    own, concepts = masked_mean(projected.vectors, projected.mask).split(WIDTH, dim=1)  # type: ignore[no-untyped-call]
    pictures = (own + 2 * concepts) @ weight.T
    texts, embeddings = matcher.encode_sentences(["a dog", "cat runs a dog"])
    words = Words(texts.vectors, texts.mask)
    sentences = masked_mean(words.vectors, words.mask)
    expected = cosine_similarity(sentences[:, None], pictures, dim=2)
    torch.testing.assert_close(embeddings @ matcher.pooled.embed_images(projected).T, expected, atol=1e-5, rtol=0)
    scores = matcher.reranker.score(matcher.reranker.precompute(projected), words)
    assert (scores / 3 - expected).abs().max() < 0.15  # attention is not quite even at the start, nor is tanh straight
    assert float(torch.corrcoef(torch.stack([scores.flatten(), expected.flatten()]))[0, 1]) > 0.98


@pytest.mark.parametrize("changes", [{"embed_dim": 8}, {"embed_dim": 16}, {"width": 2 * WIDTH}])
def test_a_stage_one_with_layers_of_its_own_keeps_their_start(changes: dict[str, int], tmp_path: Path) -> None:
    recipe = replace(recipe_of("sman", "principal"), **changes)  # type: ignore[arg-type]
    torch.manual_seed(0)
    matcher = initial_matcher(recipe, aligned(), None, small_reader(tmp_path, NOUNS))
    for weight in matcher.pooled.parameters():
        narrow = weight if len(weight) < weight.shape[1] else weight.T
        torch.testing.assert_close(narrow @ narrow.T, torch.eye(len(narrow)), atol=1e-5, rtol=0)
    regions = matcher.reranker.project(aligned().regions(range(3)))
    assert matcher.pooled.embed_images(regions).isfinite().all()


@torch.no_grad()
def test_the_whole_picture_is_added_to_each_raw_region(tmp_path: Path) -> None:
    encoder = matcher_of(tmp_path, "sman", "random").reranker.region_encoder
    features = torch.randn(2, 5, 2 * WIDTH)
    read = encoder(Regions(features, torch.ones(2, 5, dtype=torch.bool))).vectors
    for picture in range(2):
        for region in range(5):
            own = features[picture, region, :WIDTH] + features[picture, 0, :WIDTH]
            torch.testing.assert_close(read[picture, region], torch.cat([own, features[picture, region, WIDTH:]]))


def test_a_training_keeps_its_matrices_in_bytes(tmp_path: Path) -> None:
    data, reader = aligned(), small_reader(tmp_path / "encoder", NOUNS)
    recipe = replace(recipe_of("sman", "principal"), most_steps=2, question_weight=0.0)
    training = Training(recipe, data, data, tmp_path / "run", reader=reader)
    last = training.run(lambda _: None)
    assert recipe.weight_bits == 8
    best = load_matcher(tmp_path / "run" / "best", reader=reader)
    for name, weight in last.state_dict().items():
        most = max(float(weight.abs().max()) / 100, 4e-5)  # half of the smallest scale
        torch.testing.assert_close(best.state_dict()[name], weight, atol=most, rtol=1e-3)


def test_a_principal_map_needs_features_in_the_same_space() -> None:
    with pytest.raises(ValueError, match="principal word map"):
        replace(RECIPES["scan-t2i-avg-flickr8k"], word_map="principal")
