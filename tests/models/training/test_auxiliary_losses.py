"""Noise, short questions and grounding: their formulas in plain loops, and trainings that use all of them."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.batches import Regions, Words
from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.class_names import TEMPLATES, from_template
from models.evaluation.evaluate import evaluate
from models.matching.checkpoint import load_matcher
from models.text.bert_encoder import BertEncoder
from models.text.pretrained_reader import PretrainedReader
from models.training.concept_words import STANDS_OUT, TEMPLATE, ConceptWords
from models.training.feature_noise import FeatureNoise
from models.training.grounding_loss import ATTENTION, SHARPNESS, grounding_loss
from models.training.recipes import RECIPES, Recipe, aligned_recipe
from models.training.short_questions import (
    POSSIBLE,
    ShortQuestions,
    caption_words,
    frequent_words,
    question_loss,
)
from models.training.trainer import Training
from tests.support.shape_checks import checked_at_first
from tests.support.small_bert import WIDTH, HashedSentences, small_reader

THINGS = ["dog", "cat", "ball", "tree", "car", "house"]
NUM, REGIONS = 24, 4


@pytest.fixture
def reader(tmp_path: Path) -> PretrainedReader:
    words = [*THINGS, "a", "photo", "of", "and", "is", "there", "?"]
    return small_reader(tmp_path / "encoder", [*words, *(f"{thing}s" for thing in THINGS)])


def pictures(encoder: BertEncoder) -> CaptionedFeatures:
    """Each picture shows two things in its last regions; whole picture first, concepts at the end of features."""
    random = np.random.default_rng(0)
    concepts = encoder.embed([from_template(TEMPLATE, thing) for thing in THINGS]).numpy()
    features = random.normal(size=(NUM, REGIONS, 2 * WIDTH)) * 0.2
    features[:, :, WIDTH:] += concepts.mean(0)
    captions = []
    for number in range(NUM):
        chosen = random.choice(len(THINGS), 2, replace=False)
        features[number, 2:, WIDTH:] = concepts[chosen]
        named = [THINGS[thing] for thing in chosen]
        captions.append([f"a {named[0]} and a {named[1]}", f"a {named[1]} and a {named[0]}"])
    mask = np.ones((NUM, REGIONS), bool)
    mask[0, 1] = False
    return CaptionedFeatures.from_arrays(features.astype(np.float16), mask, captions, "synthetic")


def recipe(**changes: Any) -> Recipe:
    sizes: dict[str, Any] = {"concept_dim": WIDTH, "width": WIDTH, "batch": 8, "most_steps": 6, "validate_images": 8}
    return aligned_recipe("bfan-equal", **sizes | {"save_every": 2} | changes)


def test_noise_is_shared_by_a_picture_and_spares_concepts(reader: PretrainedReader) -> None:
    data = pictures(reader.encoder)
    regions = data.regions(np.arange(NUM))
    torch.manual_seed(0)
    shared = FeatureNoise(data, WIDTH, picture=0.5, region=0.0)(regions).vectors - regions.vectors
    assert torch.equal(shared[..., WIDTH:], torch.zeros_like(shared[..., WIDTH:]))
    assert torch.equal(shared[0, 1], torch.zeros(2 * WIDTH))  # padded
    torch.testing.assert_close(shared[1:, 1:], shared[1:, :1].expand(-1, REGIONS - 1, -1))
    assert (shared[:, 0, :WIDTH].norm(dim=1) > 0).all()
    own = FeatureNoise(data, WIDTH, picture=0.0, region=0.5)(regions).vectors - regions.vectors
    assert torch.equal(own[:, 0], torch.zeros(NUM, 2 * WIDTH))  # the whole picture
    assert (own[1:, 1] - own[1:, 2]).norm() > 0


def test_noise_has_the_covariance_of_the_vectors(reader: PretrainedReader) -> None:
    data = pictures(reader.encoder)
    nothing = Regions(torch.zeros(20_000, 1, 2 * WIDTH), torch.ones(20_000, 1, dtype=torch.bool))
    torch.manual_seed(0)
    drawn = FeatureNoise(data, WIDTH, picture=2.0, region=0.0)(nothing).vectors[:, 0, :WIDTH]
    expected = 4 * torch.cov(data.regions(np.arange(NUM)).vectors[:, 0, :WIDTH].T)
    torch.testing.assert_close(torch.cov(drawn.T), expected, atol=0.05 * float(expected.max()), rtol=0)


def test_padded_regions_have_no_part_in_the_size_of_the_noise(reader: PretrainedReader) -> None:
    data = pictures(reader.encoder)
    mask = np.ones((NUM, REGIONS), bool)
    mask[:, REGIONS // 2 :] = False
    padded = CaptionedFeatures.from_arrays(data.features, mask, data.captions, "synthetic")
    alone = FeatureNoise(padded.first_regions(REGIONS // 2), WIDTH, picture=0.0, region=0.5)
    assert torch.equal(FeatureNoise(padded, WIDTH, picture=0.0, region=0.5).region, alone.region)


def test_noise_is_not_made_of_numbers_that_are_not_finite(reader: PretrainedReader) -> None:
    data = pictures(reader.encoder)
    data.features[3, 1, 0] = np.inf
    with pytest.raises(ValueError, match="the features of picture 3 hold numbers that are not finite"):
        FeatureNoise(data, WIDTH, picture=1.0, region=1.0)


def test_what_stands_out_is_a_difference_of_cosines(reader: PretrainedReader) -> None:
    data = pictures(reader.encoder)
    words = ConceptWords(reader.encoder, data, [*THINGS, "a"])
    regions = data.regions(np.arange(NUM))
    every = [regions.vectors[k, r, WIDTH:] for k in range(NUM) for r in range(1, REGIONS) if regions.mask[k, r]]
    vector = words.vectors[words.rows["dog"]]
    usual = sum(float(vector @ concepts) for concepts in every) / len(every)
    found = words.standing_out(regions.vectors[3:5, 1:, WIDTH:], [["dog"], ["zebra", "a"]])
    np.testing.assert_allclose(
        found[0, 0].numpy(),
        [float(vector @ regions.vectors[3, r, WIDTH:]) - usual for r in range(1, REGIONS)],
        atol=1e-5,
    )
    assert found.isneginf().all(2).tolist() == [[False, True], [True, False]]
    highest = max(float(vector @ regions.vectors[3, r, WIDTH:]) for r in range(1, REGIONS))
    assert float(words.highest[words.rows["dog"], 3]) == pytest.approx(highest, abs=1e-5)


def test_questions_are_about_what_pictures_show(reader: PretrainedReader) -> None:
    data = pictures(reader.encoder)
    words = caption_words(reader, data.captions)
    assert set(frequent_words(words)) == {*THINGS, "a", "and"}
    concepts = ConceptWords(reader.encoder, data, frequent_words(words))
    questions = ShortQuestions(data, words, concepts)
    assert questions.words
    assert set(questions.sentences()) == {from_template(t, word) for t in TEMPLATES for word in questions.words}
    numbers = np.arange(3, 11)
    drawn = questions.draw(numbers, np.random.default_rng(0))
    assert drawn.right.any(1).all()
    assert not (drawn.right & drawn.wrong).any()
    word_of = {from_template(t, word): word for t in TEMPLATES for word in questions.words}
    for row, sentence in enumerate(drawn.sentences):
        for column, number in enumerate(numbers.tolist()):
            said = sum(word_of[sentence] in caption.split() for caption in data.captions[number])
            if said == 2:
                assert drawn.right[row, column]
            assert not (said and drawn.wrong[row, column])


def test_a_word_in_one_caption_of_five_makes_a_picture_neither_right_nor_wrong() -> None:
    data = pictures(HashedSentences())
    concepts = ConceptWords(HashedSentences(), data, THINGS)
    said, unsaid = (concepts.highest[concepts.rows["dog"]] < POSSIBLE).nonzero()[:2, 0].tolist()  # shown by neither
    words: list[list[set[str]]] = [[set() for _ in range(5)] for _ in range(NUM)]
    words[said][2] = {"dog"}
    drawn = ShortQuestions(data, words, concepts).draw(np.arange(NUM), np.random.default_rng(0))
    (row,) = (number for number, sentence in enumerate(drawn.sentences) if "dog" in sentence)
    assert (bool(drawn.right[row, said]), bool(drawn.wrong[row, said])) == (False, False)
    assert (bool(drawn.right[row, unsaid]), bool(drawn.wrong[row, unsaid])) == (False, True)


def test_question_loss_by_hand() -> None:
    scores = torch.tensor([[0.5, 0.3, 0.9, 0.1]])
    right, wrong = torch.tensor([[True, True, False, False]]), torch.tensor([[False, False, False, True]])
    good = math.exp(0.5 / 0.1) + math.exp(0.3 / 0.1)
    expected = -math.log(good / (good + math.exp(0.1 / 0.1)))  # 0.9 may be right: it does not count
    assert question_loss(scores, right, wrong, 0.1).item() == pytest.approx(expected, rel=1e-3)
    nothing = torch.zeros(0, 4, dtype=torch.bool)
    assert question_loss(torch.zeros(0, 4), nothing, nothing, 0.1).item() == 0


def test_grounding_loss_in_loops(reader: PretrainedReader) -> None:
    data = pictures(HashedSentences())
    concepts = ConceptWords(HashedSentences(), data, [*THINGS, "a"])
    raw = data.regions([0, 5])
    torch.manual_seed(0)
    projected = Regions(torch.randn(2, REGIONS, 7), raw.mask)
    tokens = [reader.tokens(data.captions[n][0]) for n in (0, 5)]
    words = Words(torch.randn(2, len(tokens[0]), 7), torch.ones(2, len(tokens[0]), dtype=torch.bool))
    losses = []
    for pair in range(2):
        rows = [r for r in range(1, REGIONS) if raw.mask[pair, r]]
        for place, word in enumerate(tokens[pair]):
            if word not in concepts.rows:
                continue
            vector = concepts.vectors[concepts.rows[word]]
            evidence = [float((raw.vectors[pair, r, WIDTH:] - concepts.mean) @ vector) for r in rows]
            if max(evidence) < STANDS_OUT:
                continue
            e = words.vectors[pair, place].numpy()
            v = [projected.vectors[pair, r].numpy() for r in rows]
            looks = [math.exp(float(x @ e / np.linalg.norm(x) / np.linalg.norm(e)) / ATTENTION) for x in v]
            goal = [math.exp(each / SHARPNESS) for each in evidence]
            losses.append(-sum(g / sum(goal) * math.log(a / sum(looks)) for g, a in zip(goal, looks, strict=True)))
    assert losses
    found = grounding_loss(concepts, raw, projected, words, tokens)
    assert found.item() == pytest.approx(np.mean(losses), rel=1e-4)
    assert grounding_loss(concepts, raw, projected, words, [["zebra"] * len(tokens[0])] * 2).item() == 0


def test_words_do_not_look_at_padded_regions(reader: PretrainedReader) -> None:
    data = pictures(HashedSentences())
    concepts = ConceptWords(HashedSentences(), data, THINGS)
    raw, tokens = data.regions([5]), [reader.tokens(data.captions[5][0])]
    torch.manual_seed(0)
    projected = Regions(torch.randn(1, REGIONS, 7), raw.mask)
    words = Words(torch.randn(1, len(tokens[0]), 7), torch.ones(1, len(tokens[0]), dtype=torch.bool))
    mask = torch.cat([raw.mask, torch.zeros(1, len(tokens[0]), dtype=torch.bool)], 1)
    # Each padded region would be what a word looks at first.
    padded = Regions(torch.cat([projected.vectors, words.vectors], 1), mask)
    padded_raw = Regions(torch.cat([raw.vectors, torch.ones(1, len(tokens[0]), 2 * WIDTH)], 1), mask)
    alone = grounding_loss(concepts, raw, projected, words, tokens)
    assert alone > 0
    torch.testing.assert_close(grounding_loss(concepts, padded_raw, padded, words, tokens), alone)


def test_words_learn_to_look(reader: PretrainedReader) -> None:
    """The loss alone moves attention to the regions whose concepts are named."""
    data = pictures(HashedSentences())
    concepts = ConceptWords(HashedSentences(), data, THINGS)
    raw, tokens = data.regions([5]), [reader.tokens(data.captions[5][0])]
    torch.manual_seed(0)
    regions = torch.randn(1, REGIONS, 7)
    spelt = torch.randn(1, len(tokens[0]), 7, requires_grad=True)
    optimizer = torch.optim.Adam([spelt], 0.1)
    for _ in range(60):
        words = Words(spelt, torch.ones(spelt.shape[:2], dtype=torch.bool))
        loss = grounding_loss(concepts, raw, Regions(regions, raw.mask), words, tokens)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    for place, word in enumerate(tokens[0]):
        if word in THINGS:
            evidence = concepts.standing_out(raw.vectors[:, 1:, WIDTH:], [[word]])
            looks = torch.nn.functional.cosine_similarity(regions[0, 1:], spelt[0, place].detach(), dim=1)
            assert looks.argmax() == evidence.argmax()


def test_a_training_with_everything_resumes_to_the_same_weights(reader: PretrainedReader, tmp_path: Path) -> None:
    data, entries = pictures(reader.encoder), list[dict[str, Any]]()
    whole = Training(recipe(), data, data, tmp_path / "whole", reader=reader)
    last = whole.run(entries.append)
    steps = [entry for entry in entries if "ranking" in entry]
    assert [entry["step"] for entry in steps] == [1, 2, 3, 4, 5, 6]
    assert all(math.isfinite(entry[name]) for entry in steps for name in ("pooled", "questions", "grounding"))

    def killed(entry: dict[str, Any]) -> None:
        if entry["step"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Training(recipe(), data, data, tmp_path / "cut", reader=reader).run(killed)
    again = Training(recipe(), data, data, tmp_path / "cut", reader=reader).run(lambda _: None)
    for name, tensor in last.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name


def test_a_warm_up_against_captions_has_the_other_losses_too(reader: PretrainedReader, tmp_path: Path) -> None:
    data, entries = pictures(reader.encoder), list[dict[str, Any]]()
    chosen = recipe(warmup_captions=16, warmup_steps=120, epochs=0, most_steps=None, learning_rate=3e-3)
    with checked_at_first(entries.append) as log:
        Training(chosen, data, data, tmp_path, reader=reader).run(log)
    steps = [entry for entry in entries if "pooled" in entry]
    assert len(steps) == 120
    assert not any("ranking" in entry for entry in entries)
    assert all(math.isfinite(entry[name]) for entry in steps for name in ("pooled", "questions", "grounding"))
    for name in ("pooled", "grounding"):
        losses = [entry[name] for entry in steps]
        assert losses[0] > 0
        assert np.mean(losses[-40:]) < np.mean(losses[:40]), name


def test_a_recipe_of_no_steps_keeps_the_start(reader: PretrainedReader, tmp_path: Path) -> None:
    data = pictures(reader.encoder)
    training = Training(recipe(most_steps=0), data, data, tmp_path, reader=reader)
    before = {name: tensor.clone() for name, tensor in training.matcher.state_dict().items()}
    after = training.run(lambda _: None).state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert (tmp_path / "best").is_dir()


def test_whole_pictures_alone_have_no_regions_to_compare_words_with(reader: PretrainedReader, tmp_path: Path) -> None:
    data, entries = pictures(reader.encoder).first_regions(1), list[dict[str, Any]]()
    for weights in ({}, {"question_weight": 0.0}, {"grounding_weight": 0.0}):
        with pytest.raises(ValueError, match="set question_weight=0 and grounding_weight=0"):
            Training(recipe(**weights), data, data, tmp_path, reader=reader)
    chosen = recipe(question_weight=0.0, grounding_weight=0.0)
    Training(chosen, data, data, tmp_path, reader=reader).run(entries.append)
    assert all(math.isfinite(entry["ranking"]) for entry in entries if "ranking" in entry)


@pytest.mark.parametrize(
    "changes", [{"concept_dim": 0}, {"aligned": False}, {"most_steps": -1}, {"picture_noise": -0.1}]
)
def test_recipes_that_cannot_be(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"concept_dim|aligned|most_steps|picture_noise"):
        replace(recipe(), **changes)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, one in RECIPES.items() if one.aligned])
def test_every_aligned_recipe_learns(name: str, reader: PretrainedReader, tmp_path: Path) -> None:
    data, entries, initial = pictures(reader.encoder), list[dict[str, Any]](), None
    sizes: dict[str, Any] = {"concept_dim": WIDTH, "width": WIDTH, "batch": 8, "most_steps": 30, "validate_images": NUM}
    if RECIPES[name].starts_from:
        initial = Training(recipe(most_steps=0), data, data, tmp_path / "first", reader=reader).matcher
    chosen = replace(RECIPES[name], learning_rate=3e-3, **sizes)
    loss = "ranking" if chosen.epochs else "pooled"  # those without epochs teach stage one alone
    chosen = replace(chosen, epochs=30) if chosen.epochs else replace(chosen, warmup_steps=sizes["most_steps"])
    with checked_at_first(entries.append) as log:
        Training(chosen, data, data, tmp_path / "run", initial=initial, reader=reader).run(log)
    losses = [entry[loss] for entry in entries if "pooled" in entry]
    assert len(losses) == sizes["most_steps"]
    assert np.mean(losses[-8:]) < np.mean(losses[:8])
    loaded = load_matcher(tmp_path / "run" / "best", reader=reader)
    assert evaluate(loaded, data, shortlists=()).report["images"] == NUM
