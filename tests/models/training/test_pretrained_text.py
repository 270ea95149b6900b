"""Trainings over the states of a frozen pretrained encoder."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.evaluate import evaluate
from models.matching.checkpoint import load_matcher
from models.text.pretrained_reader import PretrainedReader
from models.training.recipes import RECIPES, Recipe
from models.training.trainer import Training
from tests.support.small_bert import WIDTH, small_reader
from tests.support.small_trainings import NOUNS, knows_by_heart, learn_by_heart, small, synthetic


@pytest.fixture
def reader(tmp_path: Path) -> PretrainedReader:
    return small_reader(tmp_path / "encoder", NOUNS)


def recipe_of(model: str, **changes: Any) -> Recipe:
    return small(RECIPES[f"{model}-flickr8k"], text="pretrained", starts_from=None, **changes)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["scan-t2i-avg", "bfan-equal", "sman"])
def test_a_small_set_is_learnt_by_heart(model: str, reader: PretrainedReader, tmp_path: Path) -> None:
    data = synthetic()
    Training(recipe_of(model, epochs=1), data, data, tmp_path / "checked", reader=reader).run(lambda _: None)
    recipe = recipe_of(model, epochs=40, patience=40)
    learn_by_heart(Training(recipe, data, data, tmp_path / "run", reader=reader))
    report = evaluate(load_matcher(tmp_path / "run" / "best", reader=reader), data, shortlists=(10,)).report
    assert knows_by_heart(report), report


def with_concepts(data: CaptionedFeatures) -> CaptionedFeatures:
    """The pictures with the first numbers of their features once more, as if they were concepts."""
    features = torch.from_numpy(data.features)
    return replace(data, features=torch.cat([features, features[..., :WIDTH]], 2).numpy())


def test_concepts_and_words_are_trained_apart(reader: PretrainedReader, tmp_path: Path) -> None:
    data = with_concepts(synthetic(24))
    recipe = recipe_of("scan-t2i-avg", concept_dim=WIDTH, epochs=1, warmup_steps=2)
    training = Training(recipe, data, data, tmp_path / "run", reader=reader)
    reranker = training.matcher.reranker
    concepts = reranker.get_parameter("region_encoder.concepts.weight")
    words = reranker.get_parameter("sentence_encoder.fc.weight")
    assert torch.equal(concepts, words)
    frozen = {name: weight.clone() for name, weight in reader.encoder.state_dict().items()}
    training.run(lambda _: None)
    assert not torch.equal(concepts, words)
    assert all(torch.equal(frozen[name], weight) for name, weight in reader.encoder.state_dict().items())
    loaded = load_matcher(tmp_path / "run" / "best", reader=reader)
    assert isinstance(evaluate(loaded, data, shortlists=()).report["exhaustive"]["rsum"], float)


def test_every_caption_is_read_once(reader: PretrainedReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, read = synthetic(24), 0
    forward = reader.encoder.forward

    def counted(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        nonlocal read
        read += len(ids)
        return forward(ids, mask)

    monkeypatch.setattr(reader.encoder, "forward", counted)
    recipe = recipe_of("scan-t2i-avg", epochs=2, warmup_steps=2)
    Training(recipe, data, data, tmp_path / "run", reader=reader).run(lambda _: None)
    assert read == len({text for texts in data.captions for text in texts})


def test_remembered_states_are_those_of_the_encoder(reader: PretrainedReader) -> None:
    sentences = [" ".join(NOUNS[:count]) for count in (3, 1, 7)]
    remembering = reader.remembering(sentences)
    assert remembering.identity == reader.identity
    for asked in ([sentences[2], sentences[1]], [sentences[0], "a dog"], []):
        own, exact = remembering.encode(asked), reader.encode(asked)
        assert torch.equal(own.mask, exact.mask)
        torch.testing.assert_close(own.vectors, exact.vectors, atol=2e-3, rtol=2e-3)


def test_a_training_goes_on_with_the_same_encoder_alone(reader: PretrainedReader, tmp_path: Path) -> None:
    data = synthetic(24)
    recipe = recipe_of("scan-t2i-avg", epochs=1, warmup_steps=1)
    Training(recipe, data, data, tmp_path / "run", reader=reader).run(lambda _: None)
    again = Training(recipe, data, data, tmp_path / "run", reader=reader)
    again.resume()
    assert again.step == again.total_steps
    other = small_reader(tmp_path / "other", NOUNS, digest="other")
    with pytest.raises(ValueError, match="begun on other captions or word vectors"):
        Training(recipe, data, data, tmp_path / "run", reader=other).run(lambda _: None)


def test_what_pretrained_text_has_no_use_for_is_refused(reader: PretrainedReader, tmp_path: Path) -> None:
    data = synthetic(24)
    with pytest.raises(ValueError, match="near is of word vectors"):
        recipe_of("scan-t2i-avg", near=0.4)
    with pytest.raises(ValueError, match="no word vectors to start"):
        Training(recipe_of("scan-t2i-avg"), data, data, tmp_path, word_vectors=tmp_path / "v.txt", reader=reader)
    gru = small(RECIPES["scan-t2i-avg-flickr8k"])
    states = replace(gru, text="pretrained", starts_from="scan-t2i-avg-flickr8k")
    initial = Training(gru, data, data, tmp_path).matcher
    with pytest.raises(ValueError, match="is for pretrained text: its reader, or what it starts from"):
        Training(states, data, data, tmp_path, initial=initial, reader=reader)
    with pytest.raises(ValueError, match="need pretrained text"):
        Training(small(RECIPES["scan-t2i-avg-flickr8k"], concept_dim=8), data, data, tmp_path)


def test_words_are_not_grounded_in_regions_of_another_space(reader: PretrainedReader, tmp_path: Path) -> None:
    data = with_concepts(synthetic(24))
    recipe = recipe_of("sman", concept_dim=WIDTH, grounding_weight=1.0)
    with pytest.raises(ValueError, match="regions and words of sman are not in one space: set grounding_weight=0"):
        Training(recipe, data, data, tmp_path, reader=reader)


def test_the_shipped_encoder_is_the_default(tmp_path: Path) -> None:
    data = synthetic(12)
    recipe = recipe_of("scan-t2i-avg", epochs=1, warmup_steps=1, batch=12)
    Training(recipe, data, data, tmp_path / "run").run(lambda _: None)
    assert load_matcher(tmp_path / "run" / "best").words("A hoerse!") == ["<start>", "a", "hoerse", "!", "<end>"]
