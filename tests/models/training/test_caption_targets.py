"""Targets of pictures and captions, and the warm-up that uses them, against plain loops."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.batches import Regions
from models.datasets.captioned_features import CaptionedFeatures
from models.text.pretrained_reader import PretrainedReader
from models.training.caption_targets import CaptionTargets
from models.training.caption_warmup import CaptionWarmup
from models.training.recipes import RECIPES, Recipe
from models.training.trainer import Training
from tests.support.small_bert import small_reader
from tests.support.small_trainings import NOUNS, small, synthetic

CAPTIONS = [["a dog", "a dog runs"], ["cat"], ["a cat runs", "run", "a cat"], ["running dog", "dog"]]
OWNERS = [number for number, own in enumerate(CAPTIONS) for _ in own]


def recipe_of(**changes: Any) -> Recipe:
    options: dict[str, Any] = {"text": "pretrained", "starts_from": None, "warmup_captions": 16, "warmup_steps": 3}
    return small(RECIPES["bfan-equal-flickr8k"], **options | changes)


@pytest.fixture
def reader(tmp_path: Path) -> PretrainedReader:
    return small_reader(tmp_path / "encoder", NOUNS)


@pytest.fixture
def targets(reader: PretrainedReader) -> CaptionTargets:
    return CaptionTargets(reader.encoder, CAPTIONS, recipe_of())


def vectors_in_loops(reader: PretrainedReader) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of all captions, and the unit mean of those of each picture."""
    vectors = reader.encoder.embed([text for own in CAPTIONS for text in own]).double().numpy()
    means = [sum(v for v, owner in zip(vectors, OWNERS, strict=True) if owner == n) for n in range(len(CAPTIONS))]
    return vectors, np.array([mean / np.linalg.norm(mean) for mean in means])


@pytest.mark.parametrize("among", [None, [0, 1, 3, 4, 5, 7]])
def test_targets_of_pictures_are_those_of_the_formula(
    reader: PretrainedReader, targets: CaptionTargets, among: list[int] | None
) -> None:
    vectors, means = vectors_in_loops(reader)
    found = targets.of_images(torch.tensor([2, 0]), slice(None) if among is None else torch.tensor(among))
    chosen = range(len(OWNERS)) if among is None else among
    for row, n in enumerate([2, 0]):
        near = [math.exp(means[n] @ vectors[c] / 0.1) for c in chosen]
        own = [float(OWNERS[c] == n) for c in chosen]
        expected = [0.8 * one / sum(own) + 0.2 * each / sum(near) for one, each in zip(own, near, strict=True)]
        np.testing.assert_allclose(found[row].numpy(), expected, atol=1e-5)


def test_targets_of_captions_are_those_of_the_formula(reader: PretrainedReader, targets: CaptionTargets) -> None:
    vectors, means = vectors_in_loops(reader)
    pictures = [2, 0]
    captions = targets.captions_of(torch.tensor(pictures))
    assert captions.tolist() == [0, 1, 3, 4, 5]
    found = targets.of_captions(captions, torch.tensor(pictures))
    for row, c in enumerate(captions.tolist()):
        near = [math.exp(vectors[c] @ means[n] / 0.1) for n in pictures]
        expected = [0.8 * (OWNERS[c] == n) + 0.2 * each / sum(near) for n, each in zip(pictures, near, strict=True)]
        np.testing.assert_allclose(found[row].numpy(), expected, atol=1e-5)


def test_views_of_one_picture_share_its_captions(targets: CaptionTargets) -> None:
    alone, views = torch.tensor([3, 1]), torch.tensor([3, 1, 3])
    captions = targets.captions_of(views)
    assert captions.equal(targets.captions_of(alone))
    targets._recipe = recipe_of(own_share=1.0)
    expected, found = targets.of_captions(captions, alone), targets.of_captions(captions, views)
    torch.testing.assert_close(found.sum(1), torch.ones(len(captions)))
    torch.testing.assert_close(found[:, [0, 2]].sum(1), expected[:, 0])
    torch.testing.assert_close(found[:, 0], found[:, 2])


def cross_entropy(target: np.ndarray, logits: np.ndarray) -> float:
    total = 0.0
    for wanted, row in zip(target, logits, strict=True):
        log_sum = math.log(sum(math.exp(each) for each in row))
        total -= sum(share * (each - log_sum) for share, each in zip(wanted, row, strict=True))
    return total / len(target)


def small_set() -> CaptionedFeatures:
    data = synthetic(24)
    return replace(data, captions=CAPTIONS, rows=data.rows[: len(CAPTIONS)])


def test_the_warm_up_is_the_sum_of_both_cross_entropies(reader: PretrainedReader, tmp_path: Path) -> None:
    recipe, data = recipe_of(warmup_captions=100), small_set()  # more than there are: all are drawn
    matcher = Training(recipe, data, data, tmp_path / "run", reader=reader).matcher.eval()
    warmup, pictures = CaptionWarmup(recipe, data, reader), np.array([2, 0])
    regions = data.regions(pictures)
    targets, order = CaptionTargets(reader.encoder, CAPTIONS, recipe), [0, 1, 3, 4, 5, 2, 6, 7]  # own captions first
    texts = [text for own in CAPTIONS for text in own]
    with torch.no_grad():
        found = float(warmup.loss(matcher, matcher.reranker.project(regions), pictures, step=0))
        words, sentences = matcher.encode_words([texts[c] for c in order])
        embeddings = matcher.encode_regions(Regions(regions.vectors, regions.mask))[1]
    assert len(words) == len(order)
    logits = (embeddings @ sentences.T).double().numpy() / recipe.temperature
    own, numbers = torch.tensor(order[:5]), torch.from_numpy(pictures)
    expected = cross_entropy(targets.of_images(numbers, torch.tensor(order)).numpy(), logits)
    expected += cross_entropy(targets.of_captions(own, numbers).numpy(), logits[:, :5].T)
    assert found == pytest.approx(expected, rel=2e-3)  # encoded pictures are rounded to half precision


def test_captions_are_drawn_by_the_step(reader: PretrainedReader, tmp_path: Path) -> None:
    data = synthetic(24)
    recipe = recipe_of(warmup_captions=4)
    matcher = Training(recipe, data, data, tmp_path / "run", reader=reader).matcher.eval()
    warmup, pictures = CaptionWarmup(recipe, data, reader), np.array([1, 2])
    projected = matcher.reranker.project(data.regions(pictures))
    losses = [float(warmup.loss(matcher, projected, pictures, step).detach()) for step in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize(("stage_one", "encoders_learn"), [("together", True), ("apart", False)])
def test_a_warm_up_apart_teaches_stage_ones_own_layers_alone(
    reader: PretrainedReader, tmp_path: Path, stage_one: str, encoders_learn: bool
) -> None:
    data, recipe = synthetic(24), recipe_of(stage_one=stage_one, embed_dim=8)
    training = Training(recipe, data, data, tmp_path / "run", reader=reader)
    told = training._train_step(np.arange(4), [own[0] for own in data.captions[:4]])
    assert (told["reranker_gradient_norm"] > 0) is encoders_learn
    assert told["gradient_norm"] > told["reranker_gradient_norm"]


def test_a_warm_up_alone_is_a_training(reader: PretrainedReader, tmp_path: Path) -> None:
    data, log = synthetic(24), list[dict[str, Any]]()
    recipe = recipe_of(warmup_steps=12, epochs=0)
    trained = Training(recipe, data, data, tmp_path / "run", reader=reader).run(log.append)
    losses = [entry["pooled"] for entry in log if "pooled" in entry]
    assert len(losses) == 12
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    assert not any("ranking" in entry for entry in log)
    assert (tmp_path / "run" / "best" / "config.json").is_file()
    assert trained.name == "bfan-equal"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": "gru"}, "warmup_captions needs"),
        ({"own_share": 0.0}, "own_share"),
        ({"neighbours": 0.0}, "neighbours"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recipe_of(**changes)
