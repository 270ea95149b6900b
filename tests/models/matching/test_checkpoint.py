"""Weights come back as they were saved, or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from models.matching.checkpoint import WEIGHTS, BadCheckpoint, digest_of, load_matcher, new_matcher, save_matcher
from models.matching.matcher import Matcher
from models.matching.stage_one import PooledConfig
from models.rerankers.encoders import EncoderConfig
from models.rerankers.registry import UnknownModel, UnknownOption
from models.text.vocabulary import SPECIALS, Vocabulary


def matcher(options: dict[str, Any] | None = None) -> Matcher:
    torch.manual_seed(3)
    encoders = EncoderConfig(num_words=6, feature_dim=6, word_dim=5, width=8)
    vocabulary = Vocabulary((*SPECIALS, "dog", "grass"))
    pooled = PooledConfig(width=8, embed_dim=4)
    made = new_matcher("scan-t2i-avg", encoders, pooled, vocabulary, "extractor", options=options)
    return made.half().float().eval()


def test_a_saved_matcher_scores_the_same(tmp_path: Path) -> None:
    first = matcher()
    digest = save_matcher(first, tmp_path)
    again = load_matcher(tmp_path)
    assert (again.digest, again.name, again.extractor_digest) == (digest, "scan-t2i-avg", "extractor")
    words, embeddings = first.encode_sentences(["dog grass"])
    loaded_words, loaded_embeddings = again.encode_sentences(["dog grass"])
    assert torch.equal(words.vectors, loaded_words.vectors)
    assert torch.equal(embeddings, loaded_embeddings)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocabulary.json", "digest"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    save_matcher(matcher(), tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(BadCheckpoint, match=name):
        load_matcher(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocabulary.json"])
def test_one_changed_byte_is_noticed(name: str, tmp_path: Path) -> None:
    save_matcher(matcher(), tmp_path)
    content = bytearray((tmp_path / name).read_bytes())
    content[-3] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadCheckpoint, match="damaged"):
        load_matcher(tmp_path)


def test_the_digest_names_the_weights(tmp_path: Path) -> None:
    first, second = matcher(), matcher()
    with torch.no_grad():
        second.reranker.get_parameter("region_encoder.fc.weight")[0, 0] += 1
    assert save_matcher(first, tmp_path / "a") == save_matcher(matcher(), tmp_path / "b")
    assert save_matcher(first, tmp_path / "a") != save_matcher(second, tmp_path / "c")


def test_a_model_of_another_release_is_refused_by_name(tmp_path: Path) -> None:
    first = matcher()
    first.name = "scan-9000"
    save_matcher(first, tmp_path)
    with pytest.raises(UnknownModel, match="scan-9000"):
        load_matcher(tmp_path)


def test_options_of_a_model_come_back(tmp_path: Path) -> None:
    first = matcher(options={"pooling": "Max", "lambda_softmax": 4.5})
    save_matcher(first, tmp_path)
    again = load_matcher(tmp_path)
    assert again.reranker.config == first.reranker.config
    assert again.reranker.config != matcher().reranker.config
    with pytest.raises(UnknownOption, match="no option temperature; it has: direction, normalisation"):
        matcher(options={"temperature": 1.0})


def test_a_folder_from_before_options_loads_as_its_name_says(tmp_path: Path) -> None:
    save_matcher(matcher(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["options"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "digest").write_text(digest_of(tmp_path, ("config.json", "model.safetensors", "vocabulary.json")))
    assert load_matcher(tmp_path).reranker.config == matcher().reranker.config


def test_full_precision_is_kept_when_asked_for(tmp_path: Path) -> None:
    first = matcher()
    weight = first.reranker.get_parameter("region_encoder.fc.weight")
    with torch.no_grad():
        weight[0, 0] = 1 / 3
    save_matcher(first, tmp_path / "half")
    save_matcher(first, tmp_path / "full", torch.float32)
    for name, kept in (("half", False), ("full", True)):
        loaded = load_matcher(tmp_path / name).reranker.get_parameter("region_encoder.fc.weight")
        assert torch.equal(loaded, weight) is kept


def test_shipped_matchers_belong_to_the_shipped_detector() -> None:
    for folder in sorted(path.parent for path in WEIGHTS.glob("*/vocabulary.json")):
        shipped = load_matcher(folder)
        assert shipped.name == folder.name
        assert (folder / "card.md").is_file()
        assert json.loads((folder / "config.json").read_text())["extractor"] == shipped.extractor_digest
