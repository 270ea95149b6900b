"""Checkpoints come back as they were saved, or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from models.compressed_files import compressed, stored_text, write_compressed
from models.digests import digest_of_contents
from models.matching.calibration import Calibration
from models.matching.checkpoint import (
    WEIGHTS,
    BadCheckpoint,
    load_matcher,
    load_uncalibrated,
    new_matcher,
    read_header,
    save_matcher,
)
from models.matching.ensemble_calibrations import ENSEMBLES
from models.matching.hubness import HubnessConfig
from models.matching.hubness_banks import HubnessBanks, VectorBank
from models.matching.lazy_matcher import MatcherHeader
from models.matching.log_odds import LogOddsModel
from models.matching.single_matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.quantised_rows import PLANES
from models.rerankers.encoders import EncoderConfig
from models.rerankers.registry import UnknownModel, UnknownOption
from models.text.vocabulary import SPECIALS, Vocabulary
from service.model_names import check_checkpoint, shipped_models
from tests.support.power_cut import Disk

SHIPPED = [WEIGHTS / name for name in shipped_models()]


def small_matcher(options: dict[str, Any] | None = None) -> SingleMatcher:
    torch.manual_seed(3)
    encoders = EncoderConfig(num_words=6, feature_dim=6, word_dim=5, width=8)
    vocabulary = Vocabulary((*SPECIALS, "dog", "grass"))
    head = StageOneConfig(width=8, embed_dim=4)
    matcher = new_matcher("scan-t2i-avg", encoders, head, vocabulary, "extractor", options=options)
    return matcher.half().float().eval()


def test_a_saved_matcher_scores_the_same(tmp_path: Path) -> None:
    first = small_matcher()
    digest = save_matcher(first, tmp_path)
    again = load_matcher(tmp_path)
    assert (again.digest, again.name, again.extractor_digest) == (digest, "scan-t2i-avg", "extractor")
    texts, embeddings = first.encode_sentences(["dog grass"])
    loaded_texts, loaded_embeddings = again.encode_sentences(["dog grass"])
    assert torch.equal(texts.vectors, loaded_texts.vectors)
    assert torch.equal(embeddings, loaded_embeddings)


@pytest.mark.parametrize("vocabulary", [None, b'{"word2idx": {"<pad>": 0, "<start>": 1, "<end>": 2, "<unk>": 3}}'])
def test_a_saved_matcher_outlives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: bytes | None
) -> None:
    disk = Disk(tmp_path / "disk", monkeypatch)
    digest = save_matcher(small_matcher(), disk.folder, vocabulary=vocabulary)
    assert read_header(disk.left(tmp_path / "left")).digest == digest


def test_matrices_in_bytes_take_half_the_room_and_change_little(tmp_path: Path) -> None:
    first = small_matcher()
    save_matcher(first, tmp_path / "half")
    digest = save_matcher(first, tmp_path / "bytes", matrix_bits=8)
    again = load_matcher(tmp_path / "bytes")
    for name, weight in first.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weight, atol=float(weight.abs().max()) / 100, rtol=1e-3)
    assert save_matcher(again, tmp_path / "again", matrix_bits=8) == digest
    stored = load_file(tmp_path / "bytes" / "model.safetensors")
    assert stored["reranker.sentence_encoder.rnn.weight_hh_l0.planes"].nbytes == 24 * 8


def files_of(folder: Path) -> dict[str, bytes]:
    """The content of a checkpoint's files, compressed or not; a card and the calibrations of ensembles are no part of
    it."""
    names = {path.name.removesuffix(".xz") for path in folder.iterdir()} - {"card.md", ENSEMBLES}
    return {name: stored_text(folder / name) for name in names}


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_saving_a_shipped_matcher_writes_the_files_it_was_loaded_from(folder: Path, tmp_path: Path) -> None:
    first = load_matcher(folder)
    in_bytes = any(name.endswith(PLANES) for name in load_file(folder / "model.safetensors"))
    assert save_matcher(first, tmp_path, matrix_bits=8 if in_bytes else 16) == first.digest
    assert files_of(tmp_path) == files_of(folder)
    again = load_matcher(tmp_path)
    assert (again.digest, again.calibration) == (first.digest, first.calibration)
    assert again.reader.identity == first.reader.identity
    state = again.state_dict()
    assert state.keys() == first.state_dict().keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in first.state_dict().items())
    assert first.hubness is not None
    assert again.hubness is not None
    assert again.hubness.config == first.hubness.config
    assert torch.equal(again.hubness.banks.sentences.dequantise(), first.hubness.banks.sentences.dequantise())


def test_there_are_shipped_matchers() -> None:
    assert {folder.name for folder in SHIPPED} >= {"bfan-equal", "caan", "camp", "scan-t2i-avg", "sman"}


def test_a_calibration_is_saved_and_loaded_with_its_matcher(tmp_path: Path) -> None:
    model = LogOddsModel(2.0, -1.0, 0.5, 0.75)
    hubness = HubnessConfig(image_weight=0.5, text_weight=0.25, neighbours=2, similarity="scores")
    plain = small_matcher()
    two_banks = HubnessBanks(VectorBank.quantise(torch.randn(3, 1, 8)), VectorBank.quantise(torch.randn(4, 3, 8)))
    for calibration, banks in (
        (Calibration(text=model, image=model, fitted_on={"pictures": 7}), None),
        (
            Calibration(text=model, image=model, hubness=hubness),
            HubnessBanks(two_banks.sentences),
        ),
        (Calibration(text=model, image=model, hubness=hubness), two_banks),
    ):
        digest = save_matcher(plain.with_calibration(calibration, banks), tmp_path)
        again = load_matcher(tmp_path)
        assert (again.digest, again.calibration) == (digest, calibration)
        assert read_header(tmp_path) == MatcherHeader.of(again)
        assert save_matcher(again, tmp_path / "again") == digest
        assert load_uncalibrated(tmp_path).calibration is None
    assert save_matcher(plain, tmp_path) == save_matcher(small_matcher(), tmp_path / "plain")
    assert load_matcher(tmp_path).calibration is None


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocabulary.json", "digest"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    save_matcher(small_matcher(), tmp_path)
    (tmp_path / name).unlink()
    for read in (load_matcher, read_header):
        with pytest.raises(BadCheckpoint, match=name):
            read(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocabulary.json"])
def test_one_changed_byte_is_noticed(name: str, tmp_path: Path) -> None:
    save_matcher(small_matcher(), tmp_path)
    content = bytearray((tmp_path / name).read_bytes())
    content[-3] ^= 1
    (tmp_path / name).write_bytes(content)
    for read in (load_matcher, read_header):
        with pytest.raises(BadCheckpoint, match="damaged"):
            read(tmp_path)


def write_digest(folder: Path) -> None:
    """Write the digest that goes with a folder's files."""
    names = ("config.json", "model.safetensors", "vocabulary.json")
    (folder / "digest").write_text(digest_of_contents((folder / name).read_bytes() for name in names))


def test_a_vocabulary_may_be_compressed(tmp_path: Path) -> None:
    matcher, path = small_matcher(), tmp_path / "vocabulary.json"
    digest = save_matcher(matcher, tmp_path)
    content = path.read_bytes()
    write_compressed(path, content)
    path.unlink()
    again = load_matcher(tmp_path)
    assert (again.digest, again.vocabulary) == (digest, matcher.vocabulary)
    check_checkpoint(tmp_path)
    packed = compressed(path)
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(BadCheckpoint, match=r"vocabulary.json.xz: .* damaged"):
        load_matcher(tmp_path)
    assert save_matcher(matcher, tmp_path) == digest
    assert not packed.exists()


def changed_config(folder: Path, content: Any) -> None:
    """Write the config of a saved matcher and the digest that goes with it."""
    (folder / "config.json").write_text(json.dumps(content))
    write_digest(folder)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"encoders": {"num_words": 6, "colour": 1}}, "colour"),
        ({"encoders": {"num_words": "six"}}, "config.json"),
        ({"encoders": None}, "config.json"),
        ({"pooled": {"width": 8, "depth": 2}}, "depth"),
        ({"options": {"lambda_softmax": 4.5}, "model": 5}, "5"),
        ({"format": None}, "another format"),
    ],
)
def test_a_config_of_no_model_is_refused(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    save_matcher(small_matcher(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    changed_config(tmp_path, config | changes)
    with pytest.raises((BadCheckpoint, UnknownModel), match=why):
        load_matcher(tmp_path)
    if "pooled" not in changes and changes.get("encoders") != {"num_words": "six"}:
        with pytest.raises((BadCheckpoint, UnknownModel), match=why):
            read_header(tmp_path)
    for part in ("format", "model", "encoders", "extractor"):
        changed_config(tmp_path, {name: value for name, value in config.items() if name != part})
        for read in (load_matcher, read_header):
            with pytest.raises(BadCheckpoint, match=f"config.json lacks '{part}'"):
                read(tmp_path)
    changed_config(tmp_path, [config])
    with pytest.raises(BadCheckpoint, match=r"config\.json"):
        load_matcher(tmp_path)


def test_weights_of_another_model_and_cut_ones_are_refused(tmp_path: Path) -> None:
    save_matcher(small_matcher(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["encoders"]["width"] = config["pooled"]["width"] = 12
    changed_config(tmp_path, config)
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors: .*size mismatch"):
        load_matcher(tmp_path)
    weights = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    changed_config(tmp_path, config)
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors: "):
        load_matcher(tmp_path)


def test_the_digest_names_the_weights(tmp_path: Path) -> None:
    first, second = small_matcher(), small_matcher()
    with torch.no_grad():
        second.reranker.get_parameter("region_encoder.fc.weight")[0, 0] += 1
    assert save_matcher(first, tmp_path / "a") == save_matcher(small_matcher(), tmp_path / "b")
    assert save_matcher(first, tmp_path / "a") != save_matcher(second, tmp_path / "c")


def test_an_unknown_model_is_refused_by_name(tmp_path: Path) -> None:
    first = small_matcher()
    first.name = first.model = "scan-9000"
    save_matcher(first, tmp_path)
    for read in (load_matcher, read_header):
        with pytest.raises(UnknownModel, match="scan-9000"):
            read(tmp_path)


def test_a_second_training_of_a_model_has_a_name_of_its_own(tmp_path: Path) -> None:
    first = small_matcher()
    first.name = f"{first.model}-wide"
    digest = save_matcher(first, tmp_path / "a")
    again = load_matcher(tmp_path / "a")
    assert (again.name, again.model, again.digest) == (first.name, first.model, digest)
    assert read_header(tmp_path / "a") == MatcherHeader.of(again)
    assert save_matcher(again, tmp_path / "b") == digest
    calibration = Calibration(text=LogOddsModel(1.0, 0.0), image=LogOddsModel(1.0, 0.0))
    assert again.with_calibration(calibration).name == first.name
    first.name = "other"
    save_matcher(first, tmp_path / "c")
    for read in (load_matcher, read_header):
        with pytest.raises(BadCheckpoint, match="must begin with the model's"):
            read(tmp_path / "c")


def test_options_of_a_model_come_back(tmp_path: Path) -> None:
    first = small_matcher(options={"pooling": "Max", "lambda_softmax": 4.5})
    save_matcher(first, tmp_path)
    again = load_matcher(tmp_path)
    assert again.reranker.config == first.reranker.config
    assert again.reranker.config != small_matcher().reranker.config
    with pytest.raises(UnknownOption, match="no option temperature; it has: direction, normalisation"):
        small_matcher(options={"temperature": 1.0})


def test_a_folder_without_options_has_those_of_its_models_name(tmp_path: Path) -> None:
    save_matcher(small_matcher(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["options"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    write_digest(tmp_path)
    assert load_matcher(tmp_path).reranker.config == small_matcher().reranker.config


def test_full_precision_is_kept_when_asked_for(tmp_path: Path) -> None:
    first = small_matcher()
    weight = first.reranker.get_parameter("region_encoder.fc.weight")
    with torch.no_grad():
        weight[0, 0] = 1 / 3
    save_matcher(first, tmp_path / "half")
    save_matcher(first, tmp_path / "full", torch.float32)
    for name, kept in (("half", False), ("full", True)):
        loaded = load_matcher(tmp_path / name).reranker.get_parameter("region_encoder.fc.weight")
        assert torch.equal(loaded, weight) is kept


def test_shipped_matchers_belong_to_the_shipped_detector() -> None:
    for folder in SHIPPED:
        shipped = load_matcher(folder)
        assert shipped.name == folder.name
        assert read_header(folder) == MatcherHeader.of(shipped)
        assert (folder / "card.md").is_file()
        assert json.loads((folder / "config.json").read_text())["extractor"] == shipped.extractor_digest


def test_the_folder_of_a_training_names_the_one_that_holds_its_weights(tmp_path: Path) -> None:
    save_matcher(small_matcher(), tmp_path / "best")
    with pytest.raises(BadCheckpoint, match=rf"holds no checkpoint: .*; {tmp_path}/best does"):
        load_matcher(tmp_path)
