"""Matchers that read sentences by a pretrained encoder: one encoder for all, in no checkpoint, named by its digest."""

import json
from copy import deepcopy
from pathlib import Path

import pytest
import torch

from models.batches import Regions, SeveralReadings
from models.matching.checkpoint import BadCheckpoint, load_matcher, new_matcher, save_matcher
from models.matching.ensemble import build_ensemble
from models.matching.single_matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.text.pretrained_reader import PretrainedReader, shipped_reader
from models.text.vocabulary import SPECIALS, Vocabulary
from service.model_names import check_checkpoint
from tests.support.small_bert import WIDTH, small_reader


@pytest.fixture
def reader(tmp_path: Path) -> PretrainedReader:
    return small_reader(tmp_path / "encoder", ["horse", "grass"])


def matcher_by(reader: PretrainedReader, name: str = "scan-t2i-avg", seed: int = 0) -> SingleMatcher:
    torch.manual_seed(seed)
    encoders = EncoderConfig(num_words=0, feature_dim=6, width=8, text="pretrained", state_dim=reader.state_dim)
    head = StageOneConfig(width=8, embed_dim=4)
    return new_matcher(name, encoders, head, reader, "extractor").half().float().eval()


def test_sentences_go_through_the_reader(reader: PretrainedReader) -> None:
    matcher = matcher_by(reader)
    sentence = "a hrose runs"
    texts, embeddings = matcher.encode_sentences([sentence, "a dog"])
    assert (texts.vectors.shape, embeddings.shape) == ((2, 5, 8), (2, 4))
    assert texts.mask.sum(1).tolist() == [len(matcher.words(sentence)), 4]
    assert matcher.read_as(sentence) == {"hrose": "horse"}
    assert matcher.unknown_words(sentence) == []
    torch.testing.assert_close(matcher.encode_sentences(["a horse runs"])[0].vectors[0], texts.vectors[0])
    with pytest.raises(ValueError, match="has no vocabulary"):
        _ = matcher.vocabulary


def test_the_encoder_is_in_no_matcher(reader: PretrainedReader) -> None:
    matcher = matcher_by(reader)
    assert sum(weight.numel() for weight in matcher.parameters()) == (6 + 1) * 8 + (WIDTH + 1) * 8 + 2 * 8 * 4
    assert deepcopy(matcher).reader is reader
    matcher.double()
    assert reader.encode(["a dog"]).vectors.dtype == torch.float32


def test_a_checkpoint_names_the_encoder(reader: PretrainedReader, tmp_path: Path) -> None:
    first, folder = matcher_by(reader), tmp_path / "m"
    save_matcher(matcher_by_ids(), folder)  # whose vocabulary must not stay
    digest = save_matcher(first, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "digest", "model.safetensors"]
    assert json.loads((folder / "config.json").read_text())["sentence_encoder"] == "small"
    check_checkpoint(folder)
    again = load_matcher(folder, reader=reader)
    assert again.digest == digest
    assert again.reader is reader
    assert torch.equal(again.encode_sentences(["a dog"])[0].vectors, first.encode_sentences(["a dog"])[0].vectors)
    reader.digest = "another"
    assert save_matcher(first, tmp_path / "other") != digest
    with pytest.raises(BadCheckpoint, match="by the encoder small, and the one here is another"):
        load_matcher(folder, reader=reader)
    with pytest.raises(BadCheckpoint, match=f"the one here is {shipped_reader().digest}"):
        load_matcher(folder)


def matcher_by_ids() -> SingleMatcher:
    encoders = EncoderConfig(num_words=5, feature_dim=6, word_dim=5, width=8)
    return new_matcher("scan-t2i-avg", encoders, StageOneConfig(width=8), Vocabulary((*SPECIALS, "dog")), "extractor")


def test_all_matchers_read_by_one_shipped_encoder(tmp_path: Path) -> None:
    for name in ("scan-t2i-avg", "bfan-equal"):
        save_matcher(matcher_by(shipped_reader(), name), tmp_path / name)
    first, second = (load_matcher(tmp_path / name) for name in ("scan-t2i-avg", "bfan-equal"))
    assert first.reader is second.reader is shipped_reader()


def test_an_ensemble_reads_a_sentence_once_for_all(reader: PretrainedReader, tmp_path: Path) -> None:
    members = [matcher_by(reader, seed=seed) for seed in (1, 2)]
    both = build_ensemble(members)
    regions = Regions(torch.randn(3, 4, 6), torch.ones(3, 4, dtype=torch.bool))
    scores = [
        each.score(each.encode_regions(regions)[0], each.encode_sentences(["a dog runs"])[0])
        for each in (*members, both)
    ]
    torch.testing.assert_close(scores[2], (scores[0] + scores[1]) / 2)
    other = matcher_by(small_reader(tmp_path / "b", ["horse"], digest="b"))
    for stranger in (other, matcher_by_ids()):
        tokens = build_ensemble([members[0], stranger]).tokenize(["a dog runs"])
        assert isinstance(tokens, SeveralReadings)
        assert [one.mask.sum() for one in tokens.readings] == [5, 5]
    shared = both.tokenize(["a dog runs"])
    assert isinstance(shared, SeveralReadings)
    assert shared.readings[0] is shared.readings[1]


def test_encoders_and_reader_must_be_of_one_kind(reader: PretrainedReader) -> None:
    head = StageOneConfig(width=8)
    gru = EncoderConfig(num_words=5, feature_dim=6, width=8)
    narrow = EncoderConfig(num_words=0, feature_dim=6, width=8, text="pretrained", state_dim=7)
    for encoders, complaint in ((gru, "another kind"), (narrow, "states of 7 numbers, and these have 24")):
        with pytest.raises(ValueError, match=complaint):
            new_matcher("scan-t2i-avg", encoders, head, reader, "extractor")
